// One decision from the ranks' records, whatever they hold.
#include "library/gpu/join/agreement.h"

#include <gtest/gtest.h>

#include <cstring>

namespace busbw::gpu {
namespace {

std::vector<PeerRecord> records(int ranks) {
  std::vector<PeerRecord> all(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    PeerRecord& record = all[std::size_t(rank)];
    std::memcpy(record.magic, "busbwgpu", 8);
    record.protocol = agreement_protocol;
    record.rank = rank;
    record.ranks = ranks;
    record.pid = 100 + rank;
    record.host = 7;
    record.settings = 9;
    record.channel_limit = 132 - rank;
    record.uuid[0] = static_cast<unsigned char>(rank);
    put_text(record.bus_id, "0000:0f:00.0");
    record.able = 1;
  }
  return all;
}

TEST(Agreement, RanksThatAreAlikeAreAccelerated) {
  const Agreement agreement = agree(records(4));
  EXPECT_TRUE(agreement.accelerated) << agreement.reason;
  EXPECT_EQ(agreement.channel_limit, 129);
}

TEST(Agreement, ARankOfAnotherVersionIsNamedAndNotReadFurther) {
  auto all = records(3);
  std::memset(static_cast<void*>(&all[2]), 0xff, sizeof all[2]);
  EXPECT_EQ(agree(all).reason, "rank 2 runs another version of busbw's GPU library, or none");
}

TEST(Agreement, SeveralHostsAreNotAccelerated) {
  auto all = records(3);
  all[1].host = 8;
  // What cannot run elsewhere is not the reason.
  all[2].able = 0;
  EXPECT_EQ(agree(all).reason, "its ranks are on several hosts");
}

TEST(Agreement, ARanksOwnReasonIsTheReasonOfAll) {
  auto all = records(3);
  all[2].able = 0;
  put_text(all[2].reason, "no kernel runs on Tesla K80");
  EXPECT_EQ(agree(all).reason, "rank 2: no kernel runs on Tesla K80");
}

TEST(Agreement, AReasonWithoutAnEndIsCutOff) {
  auto all = records(2);
  all[1].able = 0;
  std::memset(all[1].reason, 'x', sizeof all[1].reason);
  EXPECT_EQ(agree(all).reason, "rank 1: " + std::string(sizeof all[1].reason, 'x'));
}

TEST(Agreement, RanksThatWouldDecideDifferentlyAreNotAccelerated) {
  auto all = records(3);
  all[1].settings = 10;
  EXPECT_EQ(agree(all).reason, "rank 1 has another BUSBW_ALGORITHM, BUSBW_TABLE or build of this library than rank 0");
}

TEST(Agreement, ASharedGpuIsNotAccelerated) {
  auto all = records(4);
  std::memcpy(all[3].uuid, all[1].uuid, sizeof all[1].uuid);
  EXPECT_EQ(agree(all).reason, "ranks 1 and 3 share a GPU");
}

TEST(Agreement, OneRankThatReachesNoPeerIsEnough) {
  std::vector<PeerVerdict> verdicts(3, PeerVerdict{.able = 1, .reason = ""});
  EXPECT_TRUE(agree(records(3), verdicts).accelerated);
  verdicts[1].able = 0;
  put_text(verdicts[1].reason, "cuIpcOpenMemHandle failed");
  EXPECT_EQ(agree(records(3), verdicts).reason, "rank 1: cuIpcOpenMemHandle failed");
}

TEST(Record, ATextThatIsTooLongIsCutWithAnEnd) {
  char small[8];
  put_text(small, "0123456789");
  EXPECT_STREQ(small, "0123456");
}

TEST(Record, NamesTheProcessAndTheGpu) { EXPECT_EQ(describe(records(3)[2]), "pid 102 on GPU 0000:0f:00.0"); }

}  // namespace
}  // namespace busbw::gpu

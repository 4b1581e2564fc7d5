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
    record.process = 1000 + std::uint64_t(rank);
    record.host = 7;
    record.settings = 9;
    record.channel_limit = 132 - rank;
    record.multiprocessors = 132;
    record.population = 1;
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

TEST(Agreement, SaysWhetherAProcessHoldsSeveralRanks) {
  auto all = records(4);
  EXPECT_EQ(agree(all).staged, Obstacle::none);
  all[3].process = all[1].process;
  EXPECT_EQ(agree(all).staged, Obstacle::shared_process);
}

TEST(Agreement, SaysWhetherARankHasFewQueues) {
  auto all = records(3);
  EXPECT_EQ(agree(all).staged, Obstacle::none);
  all[2].queues = 32;
  EXPECT_EQ(agree(all).staged, Obstacle::none);
  all[1].queues = 1;
  EXPECT_EQ(agree(all).staged, Obstacle::few_queues);
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
  EXPECT_EQ(agree(all).reason,
            "rank 1 has another BUSBW_ALGORITHM, BUSBW_TABLE, BUSBW_PREFER, BUSBW_CHECK or build of this library than "
            "rank 0");
}

TEST(Agreement, ASharedGpuIsNotAccelerated) {
  auto all = records(4);
  std::memcpy(all[3].uuid, all[1].uuid, sizeof all[1].uuid);
  EXPECT_EQ(agree(all).reason, "ranks 1 and 3 share a GPU");
}

TEST(Agreement, AsManyRanksShareAGpuAsAllOfThemSay) {
  auto all = records(4);
  for (PeerRecord& one : all) one.sharers = 2;
  std::memcpy(all[3].uuid, all[1].uuid, sizeof all[1].uuid);
  EXPECT_TRUE(agree(all).accelerated) << agree(all).reason;
  all[3].sharers = 1;
  EXPECT_EQ(agree(all).reason, "ranks 1 and 3 share a GPU");
  all[3].sharers = 2;
  std::memcpy(all[2].uuid, all[1].uuid, sizeof all[1].uuid);
  EXPECT_EQ(agree(all).reason, "ranks 1 and 3 share a GPU");
}

TEST(Agreement, OneRankThatReachesNoPeerIsEnough) {
  std::vector<PeerVerdict> verdicts(3, PeerVerdict{.able = 1, .reason = ""});
  EXPECT_TRUE(agree(records(3), verdicts).accelerated);
  verdicts[1].able = 0;
  put_text(verdicts[1].reason, "cuIpcOpenMemHandle failed");
  EXPECT_EQ(agree(records(3), verdicts).reason, "rank 1: cuIpcOpenMemHandle failed");
}

TEST(Agreement, WithoutRoomOnOneGpuThereIsNone) {
  auto all = records(3);
  all[1].channel_limit = 0;
  EXPECT_EQ(agree(all).reason, "rank 1: the kernels of other communicators may need all of its GPU");
}

TEST(Agreement, OnePolicyForAll) {
  auto all = records(2);
  all[1].policy = NCCL_CTA_POLICY_ZERO;
  EXPECT_EQ(agree(all).reason, "rank 1 has another CTA policy than rank 0");
}

// Records of a third communicator on ranks that share two already, each in an order of its own.
struct Meeting {
  Meeting() : all(records(3)), verdicts(3) {
    for (std::size_t rank = 0; rank < 3; ++rank) {
      all[rank].live_count = 2;
      all[rank].live[rank % 2] = 77;
      all[rank].live[1 - rank % 2] = 88;
      all[rank].population = 3;
      verdicts[rank].counted = 1;
      verdicts[rank].calls[rank % 2] = 10 + rank;
      verdicts[rank].calls[1 - rank % 2] = 20;
    }
  }
  std::vector<PeerRecord> all;
  std::vector<JoinVerdict> verdicts;
};

TEST(Narrowing, IsAtTheFirstCallThatNoRankHasMade) {
  const Meeting meeting;
  const auto changes = narrow(meeting.all, meeting.verdicts, {{77, 3}, {88, 3}});
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(changes[0].identity, 77u);
  EXPECT_EQ(changes[0].from, 12u);
  EXPECT_EQ(changes[0].limit, 32);
  EXPECT_EQ(changes[1].from, 20u);
}

// On each rank's GPU there may be others.
TEST(Narrowing, IsToWhatTheFullestGpuLeaves) {
  for (std::size_t full = 0; full < 3; ++full) {
    Meeting meeting;
    for (PeerRecord& record : meeting.all) record.population = 2;
    meeting.all[full].population = 8;
    const auto changes = narrow(meeting.all, meeting.verdicts, {{77, 3}});
    ASSERT_EQ(changes.size(), 1u);
    EXPECT_EQ(changes[0].limit, 16) << full;
  }
}

TEST(Narrowing, IsForThoseWhoseRanksAreAllHere) {
  const Meeting meeting;
  EXPECT_TRUE(narrow(meeting.all, meeting.verdicts, {{77, 4}, {99, 1}}).empty());
}

TEST(Narrowing, IsNotWhereARankHasNotCounted) {
  Meeting meeting;
  meeting.verdicts[1].counted = 0;
  EXPECT_TRUE(narrow(meeting.all, meeting.verdicts, {{77, 3}}).empty());
}

TEST(Narrowing, DoesNotReadBeyondARecordThatIsNonsense) {
  Meeting meeting;
  meeting.all[0].live_count = 1 << 30;
  meeting.all[1].live_count = -5;
  EXPECT_TRUE(narrow(meeting.all, meeting.verdicts, {{77, 3}}).empty());
}

// One that goes by votes which another one does not see would take another way for the same call.
TEST(AllVote, OnlyWhereEveryRankHasThePage) {
  Meeting meeting;
  for (JoinVerdict& one : meeting.verdicts) one.ballots = 1;
  EXPECT_TRUE(all_vote(meeting.verdicts));
  meeting.verdicts[1].ballots = 0;
  EXPECT_FALSE(all_vote(meeting.verdicts));
}

TEST(Record, ATextThatIsTooLongIsCutWithAnEnd) {
  char small[8];
  put_text(small, "0123456789");
  EXPECT_STREQ(small, "0123456");
}

TEST(Record, NamesTheProcessAndTheGpu) { EXPECT_EQ(describe(records(3)[2]), "pid 102 on GPU 0000:0f:00.0"); }

}  // namespace
}  // namespace busbw::gpu

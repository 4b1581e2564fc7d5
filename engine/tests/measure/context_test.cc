// When the GPUs are read between cases, and what a case then carries.
#include "engine/measure/context.h"

#include <gtest/gtest.h>
#include <time.h>

namespace busbw {
namespace {

std::vector<RankDescription> two_ranks() {
  return {{.rank = 0, .host = "a", .gpu = true, .bus_id = "0000:10:00"},
          {.rank = 1, .host = "a", .gpu = true, .bus_id = "0000:11:00"}};
}

struct FakeGpus {
  int readings = 0;
  ContextReader::Read read() {
    return [this](const std::string& bus_id) {
      const timespec half_a_millisecond{0, 500'000};
      nanosleep(&half_a_millisecond, nullptr);
      GpuSnapshot s;
      s.sm_clock_mhz = bus_id == "0000:11:00" ? 1215 : 1980;
      s.throttle_reasons = bus_id == "0000:11:00" ? 0x40 : 0;
      s.nvlink_sent_bytes = static_cast<std::uint64_t>(++readings);
      return s;
    };
  }
};

CaseResult lasting(double microseconds) {
  return {.time_us = microseconds, .iterations = 20, .batches_us = {{microseconds}}};
}

std::optional<CaseContext> after(ContextReader& reader, const std::vector<CaseResult>& results) {
  std::vector<const CaseResult*> ended;
  for (const CaseResult& result : results) ended.push_back(&result);
  return reader.after(Plan{}, ended);
}

TEST(Context, ShortCasesShareAReading) {
  const std::unique_ptr<Rendezvous> alone = Rendezvous::alone();
  const std::vector<RankDescription> ranks = two_ranks();
  FakeGpus gpus;
  ContextReader reader(*alone, ranks, 1, false, gpus.read());
  reader.begin();
  EXPECT_EQ(gpus.readings, 2);
  EXPECT_FALSE(after(reader, {lasting(10)}));
  EXPECT_FALSE(after(reader, {lasting(10)}));
  const auto context = after(reader, {lasting(1e6)});
  ASSERT_TRUE(context);
  EXPECT_EQ(context->cases, 3);
  EXPECT_GT(context->reading_us, 1000);
  ASSERT_EQ(context->ranks.size(), 2U);
  EXPECT_EQ(context->ranks[0].before.nvlink_sent_bytes, 1U);
  EXPECT_EQ(context->ranks[0].after.nvlink_sent_bytes, 3U);
  ASSERT_EQ(context->warnings.size(), 1U);
  EXPECT_NE(context->warnings[0].find("rank 1 "), std::string::npos);
}

TEST(Context, IsReadAfterEveryCaseWhereAskedFor) {
  const std::unique_ptr<Rendezvous> alone = Rendezvous::alone();
  const std::vector<RankDescription> ranks = two_ranks();
  FakeGpus gpus;
  ContextReader reader(*alone, ranks, 1, true, gpus.read());
  reader.begin();
  for (int i = 0; i < 3; ++i) {
    const auto context = after(reader, {lasting(1)});
    ASSERT_TRUE(context);
    EXPECT_EQ(context->cases, 1);
  }
}

TEST(Context, CasesThatEndedTogetherShareAReading) {
  const std::unique_ptr<Rendezvous> alone = Rendezvous::alone();
  const std::vector<RankDescription> ranks = two_ranks();
  FakeGpus gpus;
  ContextReader reader(*alone, ranks, 1, true, gpus.read());
  reader.begin();
  const auto context = after(reader, {lasting(1), lasting(1)});
  ASSERT_TRUE(context);
  EXPECT_EQ(context->cases, 2);
  EXPECT_EQ(gpus.readings, 4);
}

TEST(Context, TrafficOfAWarmUpIsNobodys) {
  const std::unique_ptr<Rendezvous> alone = Rendezvous::alone();
  const std::vector<RankDescription> ranks = two_ranks();
  FakeGpus gpus;
  ContextReader reader(*alone, ranks, 1, true, gpus.read());
  reader.begin();
  ASSERT_TRUE(after(reader, {lasting(1)}));
  gpus.readings += 100;  // the next warm-up
  reader.begin();
  const auto context = after(reader, {lasting(1)});
  ASSERT_TRUE(context);
  EXPECT_EQ(context->ranks[0].after.nvlink_sent_bytes.value() - context->ranks[0].before.nvlink_sent_bytes.value(), 2U);
}

TEST(Context, TrafficOfCasesThatShareAReadingAcrossAWarmUpIsNotKnown) {
  const std::unique_ptr<Rendezvous> alone = Rendezvous::alone();
  const std::vector<RankDescription> ranks = two_ranks();
  FakeGpus gpus;
  ContextReader reader(*alone, ranks, 1, false, gpus.read());
  reader.begin();
  EXPECT_FALSE(after(reader, {lasting(10)}));
  reader.begin();
  auto context = after(reader, {lasting(1e6)});
  ASSERT_TRUE(context);
  EXPECT_EQ(context->cases, 2);
  EXPECT_FALSE(context->ranks[0].before.nvlink_sent_bytes);
  EXPECT_EQ(context->ranks[0].before.sm_clock_mhz, 1980U);
  context = after(reader, {lasting(1e6)});
  ASSERT_TRUE(context);
  EXPECT_TRUE(context->ranks[0].before.nvlink_sent_bytes);
}

TEST(Context, IsAbsentWhereNoGpuTellsAnything) {
  const std::unique_ptr<Rendezvous> alone = Rendezvous::alone();
  const std::vector<RankDescription> ranks = two_ranks();
  ContextReader reader(*alone, ranks, 1, true, nullptr);
  reader.begin();
  EXPECT_FALSE(after(reader, {lasting(1e6)}));
}

}  // namespace
}  // namespace busbw

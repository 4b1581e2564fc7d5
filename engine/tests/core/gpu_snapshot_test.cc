// Readings of GPUs: as a line between processes, as warnings, in words.
#include "engine/core/gpu_snapshot.h"

#include <gtest/gtest.h>

namespace busbw {
namespace {

GpuReading reading(int rank, std::uint64_t reasons = 0, unsigned processes = 1) {
  GpuReading r{.rank = rank};
  r.after.sm_clock_mhz = reasons != 0 ? 1215 : 1980;
  r.after.throttle_reasons = reasons;
  r.after.compute_processes = processes;
  r.before = r.after;
  return r;
}

TEST(GpuSnapshot, SurvivesTheWayBetweenProcesses) {
  GpuSnapshot sent;
  sent.sm_clock_mhz = 1980;
  sent.power_watts = 412.25;
  sent.nvlink_sent_bytes = (std::uint64_t{1} << 60) + 1;
  sent.throttle_reasons = 0x41;
  const GpuSnapshot received = from_line(to_line(sent));
  EXPECT_EQ(received.sm_clock_mhz, 1980U);
  EXPECT_EQ(received.power_watts, 412.25);
  EXPECT_EQ(received.nvlink_sent_bytes, (std::uint64_t{1} << 60) + 1);
  EXPECT_EQ(received.throttle_reasons, 0x41U);
  EXPECT_FALSE(received.temperature_celsius);
  EXPECT_EQ(to_line(received), to_line(sent));
}

TEST(GpuSnapshot, ReadsASpoiledLineAsAGpuThatTellsNothing) {
  EXPECT_EQ(to_line(from_line("nonsense -3 1e999 ")), to_line({}));
  EXPECT_EQ(to_line(from_line("")), to_line({}));
}

TEST(Throttling, IsNamedAndIdlenessIsNone) {
  EXPECT_EQ(throttle_names(0x41), (std::vector<std::string>{"gpu_idle", "hw_thermal_slowdown"}));
  EXPECT_TRUE(is_throttled(0x41));
  EXPECT_FALSE(is_throttled(0x03));
  EXPECT_FALSE(is_throttled(0));
}

TEST(Warnings, NameTheRanksOfOneCauseTogether) {
  const auto warnings = warnings_of({reading(0, 0x40), reading(1), reading(2, 0x41), reading(3, 0x40)});
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_EQ(warnings[0], "the GPU of ranks 0,2-3 ran throttled (hw_thermal_slowdown), SM clock 1215 MHz");
}

TEST(Warnings, SayWhenMoreProcessesComputeThanTheJobHasThere) {
  EXPECT_TRUE(warnings_of({reading(0, 0, 1)}).empty());
  EXPECT_EQ(warnings_of({reading(0, 0, 2)}).size(), 1U);
  GpuReading shared_by_the_job = reading(0, 0, 2);
  shared_by_the_job.own_processes = 2;
  EXPECT_TRUE(warnings_of({shared_by_the_job}).empty());
}

TEST(Words, GiveRangesOverTheRanksAndWhatCountersGrewBy) {
  GpuReading first = reading(0);
  GpuReading second = reading(1, 0x40);
  first.before.nvlink_sent_bytes = 1'000'000'000;
  first.after.nvlink_sent_bytes = 3'500'000'000;
  EXPECT_EQ(in_words({first, second}), "SM 1215 to 1980 MHz; NVLink 2.50 GB out");
}

TEST(Words, LeaveOutACounterThatWasReset) {
  GpuReading r = reading(0);
  r.before.nvlink_sent_bytes = 2;
  r.after.nvlink_sent_bytes = 1;
  EXPECT_EQ(in_words({r}), "SM 1980 MHz");
  EXPECT_EQ(in_words({GpuReading{}}), "the GPUs tell nothing");
}

}  // namespace
}  // namespace busbw

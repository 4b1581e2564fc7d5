// Order statistics against figures worked out by hand or by simulation.
#include "engine/measure/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

namespace busbw {
namespace {

TEST(MedianInterval, NeedsSixSamplesForNinetyFivePercent) {
  // 1 - 2 * 0.5^6 = 0.969 is the first range of all samples that covers 95 %.
  EXPECT_EQ(fewest_samples(0.95), 6);
}

TEST(MedianInterval, TakesTheWholeRangeOfSixSamples) {
  const Interval interval = median_interval({6, 1, 5, 2, 4, 3}, 0.95);
  EXPECT_DOUBLE_EQ(interval.low, 1);
  EXPECT_DOUBLE_EQ(interval.high, 6);
  EXPECT_DOUBLE_EQ(interval.median, 3.5);
}

TEST(MedianInterval, LeavesOutExtremesWhereTheyAreNotNeeded) {
  std::vector<double> samples(25);
  std::iota(samples.begin(), samples.end(), 1.0);
  // Tables of the sign test: n = 25, 95 %: from the 8th to the 18th.
  const Interval interval = median_interval(samples, 0.95);
  EXPECT_DOUBLE_EQ(interval.low, 8);
  EXPECT_DOUBLE_EQ(interval.high, 18);
}

TEST(MedianInterval, CoversTheTrueMedianAsOftenAsItSays) {
  std::mt19937 random(7);
  std::lognormal_distribution<double> skewed(0.0, 0.5);  // median 1
  int covered = 0;
  constexpr int runs = 4000;
  for (int run = 0; run < runs; ++run) {
    std::vector<double> samples(31);
    for (double& sample : samples) sample = skewed(random);
    const Interval interval = median_interval(samples, 0.95);
    covered += interval.low <= 1 && 1 <= interval.high ? 1 : 0;
  }
  EXPECT_GT(covered, 0.94 * runs);
  EXPECT_LT(covered, 0.995 * runs);
}

TEST(GrowingSamples, SayAfterEachSampleWhatAllOfThemTogetherSay) {
  std::mt19937 random(3);
  std::lognormal_distribution<double> skewed(0.0, 0.5);
  GrowingSamples growing;
  std::vector<double> all;
  for (int n = 1; n <= 1000; ++n) {
    all.push_back(n % 7 == 0 ? all.front() : skewed(random));
    growing.add(all.back());
    const Interval one_by_one = growing.median_interval(0.95);
    const Interval together = median_interval(all, 0.95);
    ASSERT_EQ(one_by_one.low, together.low) << n;
    ASSERT_EQ(one_by_one.high, together.high) << n;
    ASSERT_EQ(one_by_one.median, median_of(all)) << n;
    ASSERT_EQ(one_by_one.batches, n);
  }
}

// Counted from nothing, as the definition says.
TEST(MedianInterval, TakesTheNarrowestRangeThatKeepsTheLevel) {
  for (int n = 6; n <= 900; n += n < 100 ? 1 : 37) {
    std::vector<double> samples(static_cast<std::size_t>(n));
    std::iota(samples.begin(), samples.end(), 1.0);
    const auto below = static_cast<int>(median_interval(samples, 0.95).low);  // k of the k-th smallest
    long double term = std::pow(0.5L, n);
    long double sum = 0;
    int k = 0;
    for (int i = 0; i < n / 2; ++i) {
      sum += term;
      term *= static_cast<long double>(n - i) / (i + 1);
      if (1 - 2 * sum >= 0.95L) k = i + 1;
    }
    ASSERT_EQ(below, k) << n;
  }
}

TEST(Iterations, FollowTheDefinitionsOfNcclTests) {
  std::vector<double> times(100);
  std::iota(times.begin(), times.end(), 1.0);
  const IterationStatistics s = summarize_iterations(times, 0);
  EXPECT_DOUBLE_EQ(s.min, 1);
  EXPECT_DOUBLE_EQ(s.max, 100);
  EXPECT_DOUBLE_EQ(s.mean, 50.5);
  EXPECT_DOUBLE_EQ(s.p50, 51);  // element floor(n/2) of the sorted list
  EXPECT_DOUBLE_EQ(s.p95, 95);
  EXPECT_DOUBLE_EQ(s.p99, 99);
  EXPECT_NEAR(s.stdev, 28.8661, 1e-4);  // of the population
}

TEST(Iterations, LeaveTheFirstOutOfTheSummaryButKeepThem) {
  const IterationStatistics s = summarize_iterations({1000, 2, 3}, 1);
  EXPECT_DOUBLE_EQ(s.max, 3);
  EXPECT_EQ(s.times.size(), 3u);
}

TEST(Combine, KnowsTheFourWays) {
  const std::vector<double> times{3, 1, 2, 6};
  EXPECT_DOUBLE_EQ(combine(times, Average::rank0), 3);
  EXPECT_DOUBLE_EQ(combine(times, Average::mean), 3);
  EXPECT_DOUBLE_EQ(combine(times, Average::min), 1);
  EXPECT_DOUBLE_EQ(combine(times, Average::max), 6);
}

}  // namespace
}  // namespace busbw

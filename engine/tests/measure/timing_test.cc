// The timed region against a clock, a barrier and a stream that the test sets: what is inside it, what it is divided
// by.
#include <gtest/gtest.h>

#include <string>

#include "engine/collectives/collective.h"
#include "engine/measure/nccl_tests_way.h"
#include "engine/measure/precise_way.h"
#include "engine/tests/measure/fake_time.h"

namespace busbw {
namespace {

class TimingTest : public ::testing::Test {
 protected:
  // Behind one that is late by a second: nobody times the wait for it.
  CaseResult sample(double seconds_per_call = 0) {
    world.others_arrive = world.now + 1;
    CaseResult result;
    const auto note = [this](int number, int calls) { placed.emplace_back(number, calls); };
    sample_as_nccl_tests(timing, cut_case(plan, seconds_per_call), note, result);
    return result;
  }

  World world;
  FakeClock clock{world};
  FakeBarrier barrier{world};
  FakeWork work{world};
  Plan plan;
  Timing timing{clock, barrier, work, plan};
  std::vector<std::pair<int, int>> placed;  // batch and the calls before it
};

TEST_F(TimingTest, StartsBehindTheBarrierAndEndsWhenTheLastCallHasCompleted) {
  const CaseResult result = sample();
  // The first of 20 calls waits for its launch; the device is busy from then on.
  EXPECT_NEAR(result.time_us, (1 + 20 * 10) / 20.0, 1e-6);
  EXPECT_NEAR(result.cpu_time_us, 1, 1e-6);
  EXPECT_EQ(world.log.front(), "line up");
  EXPECT_EQ(world.log.back(), "complete");
  EXPECT_EQ(world.count("line up"), 1);
}

TEST_F(TimingTest, HoldsTheTimedCallsAndNoOther) {
  plan.iterations = 7;
  plan.aggregated = 3;
  sample();
  EXPECT_EQ(world.count("start"), 21);
  for (int i = 0; i < 21; ++i) EXPECT_EQ(work.calls[static_cast<std::size_t>(i)], i);
  EXPECT_EQ(world.count("begin group"), 7);
  EXPECT_EQ(world.count("end group"), 7);
  EXPECT_EQ(world.count("abandon group"), 0);
}

TEST_F(TimingTest, OneHiccupOfAnyLengthMakesNoShortCallALongOne) {
  world.hiccup = 1;
  EXPECT_NEAR(estimate_call(timing, Bytes{4096}), world.call + world.launch, 1e-9);
  EXPECT_EQ(world.count("start"), 2);
}

TEST_F(TimingTest, ALongCallOfManyBytesIsMadeOnce) {
  world.call = 0.01;
  EXPECT_NEAR(estimate_call(timing, Bytes{std::size_t{4} << 30}), world.call + world.launch, 1e-9);
  EXPECT_EQ(world.count("start"), 1);
}

TEST_F(TimingTest, DividesByIterationsTimesAggregatedCalls) {
  plan.iterations = 5;
  plan.aggregated = 4;
  EXPECT_NEAR(sample().time_us, (1 + 20 * 10) / 20.0, 1e-6);
}

TEST_F(TimingTest, StepsThatDependOnEachOtherAreNotGrouped) {
  plan.aggregated = 4;
  work.groups = false;
  sample();
  EXPECT_EQ(world.count("begin group"), 0);
}

TEST_F(TimingTest, AGraphsTimeIsDividedByItsLaunchesTooAndItsLaunchTimeIsNot) {
  plan.iterations = 5;
  plan.aggregated = 2;
  plan.graph_launches = 3;
  const CaseResult result = sample();
  EXPECT_EQ(world.count("launch"), 3);
  EXPECT_EQ(world.count("record"), 10);
  EXPECT_EQ(world.count("start"), 0);
  EXPECT_NEAR(result.time_us, (1 + 30 * 10) / 30.0, 1e-6);
  // As in nccl-tests, which divides the launch time by the calls of one launch.
  EXPECT_NEAR(result.cpu_time_us, 3 / 10.0, 1e-6);
}

TEST_F(TimingTest, CapturingIsNotTimedAndComesBeforeTheBarrier) {
  plan.graph_launches = 1;
  sample();
  const auto lined_up = std::find(world.log.begin(), world.log.end(), "line up");
  EXPECT_EQ(std::count(lined_up, world.log.end(), "record"), 0);
  EXPECT_EQ(std::count(lined_up, world.log.end(), "instantiate"), 0);
}

TEST_F(TimingTest, EveryThreadsTimeCountsAsTheAverageSays) {
  world.factors = {3.0, 5.0, 0.5};
  const double mine = (1 + 20 * 10) / 20.0;
  const std::pair<Average, double> expected[] = {
      {Average::rank0, mine}, {Average::mean, mine * 9.5 / 4}, {Average::min, mine * 0.5}, {Average::max, mine * 5}};
  EXPECT_EQ(plan.average, Average::mean);
  for (const auto& [average, time_us] : expected) {
    plan.average = average;
    const CaseResult result = sample();
    EXPECT_NEAR(result.time_us, time_us, 1e-6);
    ASSERT_EQ(result.batches_us.size(), 4U);
    EXPECT_NEAR(result.batches_us[1].front(), mine * 3, 1e-6);
  }
}

TEST_F(TimingTest, WaitsOfTheUserAreInsideTheTimeButForThoseBetweenOuterIterations) {
  plan.blocking = Blocking::wait;
  EXPECT_NEAR(sample().time_us, 11, 1e-6);
  plan.blocking = Blocking::wait_and_barrier;
  EXPECT_NEAR(sample().time_us, 11, 1e-6);
  EXPECT_EQ(world.count("line up"), 1 + 1 + 20);
  // The barrier after each outer iteration waits for a late thread, and that wait does not count.
  class LateEveryTime final : public Barrier {
   public:
    explicit LateEveryTime(World& world) : world_(world) {}
    void wait() override {}
    void line_up() override { world_.now += 1; }
    std::vector<double> all_gather(double mine) override { return {mine}; }

   private:
    World& world_;
  } late(world);
  plan.blocking = Blocking::outer;
  const Timing with_late{clock, late, work, plan};
  EXPECT_NEAR(run_batch(with_late, 20).elapsed, 11 * microsecond, 1e-12);
}

TEST_F(TimingTest, IterationsAreTimedByTheirOwnEventsOnTheSlowestRank) {
  plan.per_iteration = true;
  plan.iterations = 4;
  world.factors = {2.0};
  const CaseResult result = sample();
  ASSERT_TRUE(result.per_iteration.has_value());
  ASSERT_EQ(result.per_iteration->times.size(), 4U);
  EXPECT_NEAR(result.per_iteration->times[1], 20, 1e-6);
}

TEST_F(TimingTest, BatchesBesideNcclTestsOneAreSamplesAndTheTimeIsOfTheFirst) {
  plan.batches = 6;
  const Timing slower_later{clock, barrier, work, plan};
  CaseResult result;
  const auto slow_down = [&](int number, int) { world.call = (number == 0 ? 10 : 30) * microsecond; };
  sample_as_nccl_tests(slower_later, cut_case(plan, 10 * microsecond), slow_down, result);
  EXPECT_EQ(result.iterations, 20);
  EXPECT_EQ(world.count("start"), 6 * 20);
  ASSERT_EQ(result.batches_us.front().size(), 6U);
  EXPECT_NEAR(result.batches_us.front()[5], (1 + 20 * 30) / 20.0, 1e-6);
  EXPECT_NEAR(result.time_us, (1 + 20 * 10) / 20.0, 1e-6);
  EXPECT_NEAR(result.cpu_time_us, 1, 1e-6);
}

TEST_F(TimingTest, LongCallsShareTheirIterationsAndTheTimeIsTheMeanOfThemAll) {
  plan.batches = 6;
  world.call = 5e-3;
  work.groups = false;
  CaseResult result;
  std::vector<int> before;
  const auto slow_down = [&](int number, int calls) {
    before.push_back(calls);
    world.call = number < 2 ? 5e-3 : 10e-3;  // batches of four calls, then of three
  };
  sample_as_nccl_tests(timing, cut_case(plan, 5e-3), slow_down, result);
  EXPECT_EQ(world.count("start"), 20);
  EXPECT_EQ(before, (std::vector<int>{0, 4, 8, 11, 14, 17}));
  EXPECT_EQ(result.iterations, 20);
  EXPECT_EQ(result.batches_us.front().size(), 6U);
  EXPECT_NEAR(result.time_us, (6 * 1 + 8 * 5e3 + 12 * 10e3) / 20, 1e-6);
}

TEST_F(TimingTest, TheSlowestThreadIsThatOfTheWholeCaseHoweverItIsCut) {
  plan.batches = 6;
  plan.average = Average::max;
  world.call = 5e-3;
  CaseResult result;
  // The other thread is slower in the first half and faster in the second; each thread's mean is what counts.
  sample_as_nccl_tests(
      timing, cut_case(plan, 5e-3), [&](int number, int) { world.factors = {number < 2 ? 2.0 : 0.5}; }, result);
  const double mine = (4 * 2 * 1 + 20 * 5e3) / 20;
  EXPECT_NEAR(result.time_us, (8 * 2.0 + 12 * 0.5) / 20 * mine, 1);
}

TEST_F(TimingTest, LaunchesOfAGraphAreSharedAsIterationsAre) {
  plan.batches = 6;
  plan.iterations = 5;
  plan.graph_launches = 9;
  world.call = 2e-3;
  const CaseResult result = sample(2e-3);
  EXPECT_EQ(world.count("launch"), 9);
  EXPECT_EQ(result.batches_us.front().size(), 6U);
  EXPECT_NEAR(result.time_us, 2e3, 1);
  EXPECT_NEAR(result.cpu_time_us, 9 / 5.0, 1e-6);
}

TEST_F(TimingTest, TimesOfIterationsLeaveTheBatchWhole) {
  plan.batches = 6;
  plan.per_iteration = true;
  world.call = 5e-3;
  const CaseResult result = sample(5e-3);
  EXPECT_EQ(result.batches_us.front().size(), 1U);
  EXPECT_EQ(result.per_iteration->times.size(), 20U);
}

TEST_F(TimingTest, AnEstimateIsOneCallBehindTheBarrier) {
  world.others_arrive = 1;
  EXPECT_NEAR(time_call(timing), 11 * microsecond, 1e-12);
  world.factors = {3.0};
  EXPECT_NEAR(time_call(timing), 22 * microsecond, 1e-12);
}

TEST_F(TimingTest, UnderPrecisionTheTimeIsTheMedianOfTheBatchesOfAllThreads) {
  plan.precision = 0.5;
  world.factors = {3.0};
  Sampling samplings[] = {{.in_place = false}, {.in_place = true}};
  // Every fourth batch is ten times as long: the mean would show it.
  const double usual = world.call;
  sample_until_precise(timing, {.iterations = 20, .launches = 1}, false, samplings[0], samplings[1],
                       [&](const Sampling&, int number) { world.call = number % 4 == 3 ? 10 * usual : usual; });
  const double mine = (1 + 20 * 10) / 20.0;
  for (const Sampling& sampling : samplings) {
    EXPECT_NEAR(sampling.result.time_us, 2 * mine, 1e-6);
    EXPECT_EQ(sampling.result.interval->median, sampling.result.time_us);
    EXPECT_TRUE(sampling.result.interval->reached);
  }
}

TEST_F(TimingTest, UnderPrecisionTheFirstIterationsOfAllBatchesHaveTimesOfTheirOwn) {
  plan.precision = 0.5;
  plan.per_iteration = true;
  plan.iterations = 20;
  plan.per_iteration_skip = 5;
  world.factors = {2.0};
  Sampling samplings[] = {{.in_place = false}, {.in_place = true}};
  const double usual = world.call;
  sample_until_precise(
      timing, {.iterations = 8, .launches = 1}, false, samplings[0], samplings[1],
      [&](const Sampling& sampling, int number) { world.call = (sampling.in_place ? 3 : 1) * (1 + number) * usual; });
  for (const Sampling& sampling : samplings) {
    const auto& statistics = sampling.result.per_iteration;
    ASSERT_TRUE(statistics.has_value());
    ASSERT_EQ(statistics->times.size(), 20U);  // -n, over batches of 8, 8 and 4
    EXPECT_EQ(statistics->skipped, 5);
    const double slowest = 2 * 10 * (sampling.in_place ? 3 : 1);  // of both ranks, in the first batch
    EXPECT_NEAR(statistics->times[1], slowest, 1e-6);
    EXPECT_NEAR(statistics->times[9], 2 * slowest, 1e-6);
    EXPECT_NEAR(statistics->times[17], 3 * slowest, 1e-6);
  }
}

TEST_F(TimingTest, PrecisionEndsWhenTheSlowestClockSaysThatTimeIsUp) {
  plan.precision = 1e-9;
  plan.max_seconds = 0.01;
  world.factors = {4.0};
  Sampling samplings[] = {{.in_place = false}, {.in_place = true}};
  sample_until_precise(timing, {.iterations = 20, .launches = 1}, false, samplings[0], samplings[1],
                       [&](const Sampling&, int number) { world.call = (10 + number % 2) * microsecond; });
  EXPECT_FALSE(samplings[0].result.interval->reached);
  EXPECT_LT(world.now, 0.01);
}

// Bytes and factors as doc/PERFORMANCE.md of nccl-tests derives them, for 8 ranks and 8 MiB of float.
TEST(Bandwidths, CountTheBytesAndTheFactorOfTheirCollective) {
  constexpr int ranks = 8;
  constexpr double size = 8 << 20;
  const std::pair<const char*, std::pair<double, double>> expected[] = {
      {"all_reduce", {size, 2.0 * (ranks - 1) / ranks}},
      {"all_gather", {size, (ranks - 1.0) / ranks}},
      {"reduce_scatter", {size, (ranks - 1.0) / ranks}},
      {"broadcast", {size, 1}},
      {"reduce", {size, 1}},
      {"alltoall", {size, (ranks - 1.0) / ranks}},
      {"gather", {size, (ranks - 1.0) / ranks}},
      {"scatter", {size, (ranks - 1.0) / ranks}},
      {"sendrecv", {size, 1}},
      {"hypercube", {size * (ranks - 1) / ranks, 1}},
  };
  for (const auto& [name, figures] : expected) {
    const std::unique_ptr<Collective> collective = make_collective(name);
    ASSERT_NE(collective, nullptr) << name;
    const Geometry g = collective->geometry({std::size_t{8} << 20}, DataType::float32, {.rank = 0, .ranks = ranks});
    CaseResult result;
    result.time_us = 100;
    const double bytes = g.algorithm_elements * static_cast<double>(element_size(DataType::float32));
    set_bandwidths(result, bytes, collective->bus_factor(ranks));
    EXPECT_NEAR(result.algbw, figures.first / 100e-6 / 1e9, 1e-9) << name;
    EXPECT_NEAR(result.busbw, result.algbw * figures.second, 1e-9) << name;
  }
}

}  // namespace
}  // namespace busbw

// How batches under --precision and those of a plain run are cut.
#include "engine/measure/batch_shape.h"

#include <gtest/gtest.h>

#include <numeric>

namespace busbw {
namespace {

TEST(BatchShape, ShortCallsComeInBatchesOfAsManyAsAskedFor) {
  const Plan plan;
  EXPECT_EQ(batch_shape(plan, 8e-6), (BatchShape{.iterations = 20}));
  EXPECT_EQ(batch_shape(plan, 50e-6), (BatchShape{.iterations = 20}));
  EXPECT_EQ(batch_shape(plan, 0), (BatchShape{.iterations = 20}));
}

TEST(BatchShape, ABatchOfFewerCallsLastsAMillisecond) {
  const Plan plan;
  for (const double seconds : {60e-6, 100e-6, 322e-6, 610e-6, 1180e-6, 17e-3}) {
    const BatchShape shape = batch_shape(plan, seconds);
    EXPECT_GE(shape.iterations * seconds, 1e-3);
    EXPECT_LT((shape.iterations - 1) * seconds, 1e-3);
    EXPECT_EQ(shape.launches, 1);
  }
}

TEST(BatchShape, AggregatedCallsCountTogether) {
  Plan plan;
  plan.aggregated = 10;
  EXPECT_EQ(batch_shape(plan, 20e-6).iterations, 5);
}

TEST(BatchShape, GraphsAreLaunchedOnlyAsOftenAsNeeded) {
  Plan plan;
  plan.graph_launches = 20;
  EXPECT_EQ(batch_shape(plan, 8e-6), (BatchShape{.iterations = 20, .launches = 20}));
  EXPECT_EQ(batch_shape(plan, 100e-6), (BatchShape{.iterations = 20, .launches = 2}));
  EXPECT_EQ(batch_shape(plan, 1e-3), (BatchShape{.iterations = 4, .launches = 1}));
  EXPECT_EQ(batch_shape(plan, 17e-3), (BatchShape{.iterations = 1, .launches = 1}));
}

int sum(const std::vector<int>& parts) { return std::accumulate(parts.begin(), parts.end(), 0); }

TEST(CutCase, OneBatchIsNcclTestsOwn) {
  const Plan plan;
  for (const double seconds : {0.0, 10e-6, 5e-3}) EXPECT_EQ(cut_case(plan, seconds).parts, std::vector<int>{20});
}

TEST(CutCase, WhateverACallTakesTheReportedIterationsAreAsManyAsAskedForAndTheRestCostsLittle) {
  Plan plan;
  plan.batches = 6;
  for (const int iterations : {1, 2, 5, 6, 20, 100, 1000}) {
    plan.iterations = iterations;
    for (double seconds = 1e-7; seconds < 10; seconds *= 1.3) {
      const Cut cut = cut_case(plan, seconds);
      if (cut.shared) {
        EXPECT_EQ(sum(cut.parts), iterations);
        for (const int part : cut.parts) EXPECT_GT(part * seconds, 2.5e-3) << iterations << " of " << seconds;
      } else {
        EXPECT_EQ(cut.parts.front(), iterations);
        EXPECT_LE((sum(cut.parts) - iterations) * seconds, 10e-3) << iterations << " of " << seconds;
      }
      EXPECT_LE(cut.parts.size(), 6U);
      if (iterations >= 20) EXPECT_EQ(cut.parts.size(), 6U) << iterations << " of " << seconds;
    }
  }
}

TEST(CutCase, AGraphIsCutIntoLaunches) {
  Plan plan;
  plan.batches = 6;
  plan.graph_launches = 20;
  EXPECT_EQ(cut_case(plan, 10e-6).parts, (std::vector<int>{20, 20, 20, 20, 20, 20}));
  EXPECT_EQ(cut_case(plan, 1e-3).parts, (std::vector<int>{4, 4, 3, 3, 3, 3}));
}

}  // namespace
}  // namespace busbw

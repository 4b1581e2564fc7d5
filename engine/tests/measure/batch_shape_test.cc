// How batches under --precision are cut.
#include "engine/measure/batch_shape.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace busbw

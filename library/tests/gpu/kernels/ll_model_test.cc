// Every interleaving of a few calls of the LL protocol.
#include "library/tests/gpu/kernels/ll_model.h"

#include <gtest/gtest.h>

namespace busbw::gpu::model {
namespace {

TEST(LlModel, OverwritesNoPacketAndNeverHangsWithTwoSets) {
  for (const LlModel& model : {LlModel{.ranks = 2, .calls = 7}, LlModel{.ranks = 2, .calls = 5, .packets = 2},
                               LlModel{.ranks = 3, .calls = 4}}) {
    const Verdict verdict = search(model);
    EXPECT_EQ(verdict.wrong, "") << verdict.trace;
    EXPECT_GT(verdict.states, 50u);
  }
}

TEST(LlModel, OverwritesAPacketWithOneSet) {
  const Verdict verdict = search(LlModel{.ranks = 2, .calls = 3, .sets = 1});
  EXPECT_EQ(verdict.wrong, "a packet was overwritten before it was read") << verdict.trace;
}

// Two sets are enough only because each rank hears from every other in each call.
TEST(LlModel, OverwritesAPacketWhereOnlyTheRootSends) {
  const Verdict verdict = search(LlModel{.ranks = 2, .calls = 4, .only_root_sends = true});
  EXPECT_EQ(verdict.wrong, "a packet was overwritten before it was read") << verdict.trace;
}

}  // namespace
}  // namespace busbw::gpu::model

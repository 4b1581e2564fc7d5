// What happens when LL's epochs are used up and start again, with four or six of them in place of 2^32 - 2.
//
//   epoch   2 3 4 5 6 7 | 2 3 ...      set = epoch & 1 goes on alternating: there is an even number of them
//   cleared         0 1                at the end of 6 set 0, of 7 set 1, each by its owner
#include <gtest/gtest.h>

#include "library/tests/gpu/kernels/ll_model.h"

namespace busbw::gpu::model {
namespace {

TEST(EpochWrap, TakesNoOldPacketForANewOne) {
  for (const LlModel& model : {LlModel{.ranks = 2, .calls = 8, .packets = 2, .last_epoch = 5},
                               LlModel{.ranks = 2, .calls = 9, .packets = 2, .last_epoch = 7},
                               LlModel{.ranks = 3, .calls = 6, .last_epoch = 5}}) {
    const Verdict verdict = search(model);
    EXPECT_EQ(verdict.wrong, "") << verdict.trace;
    EXPECT_GT(verdict.states, 100u);
  }
}

TEST(EpochWrap, TakesAnOldPacketForANewOneWithoutClearing) {
  const Verdict verdict =
      search(LlModel{.ranks = 2, .calls = 8, .packets = 2, .last_epoch = 5, .clears_before_wrap = false});
  EXPECT_EQ(verdict.wrong, "a packet of an earlier round of epochs was taken for a new one") << verdict.trace;
}

// The same with an odd number of epochs: the first epoch comes into the set of the last one.
TEST(EpochWrap, OverwritesAPacketWhereTheSetsDoNotAlternate) {
  const Verdict verdict = search(LlModel{.ranks = 2, .calls = 8, .last_epoch = 6});
  EXPECT_EQ(verdict.wrong, "a packet was overwritten before it was read") << verdict.trace;
}

static_assert((0xffffffffu - 2 + 1) % 2 == 0, "epochs 2 to 2^32 - 1 are an even number");

}  // namespace
}  // namespace busbw::gpu::model

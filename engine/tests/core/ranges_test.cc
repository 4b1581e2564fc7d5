// Numbers as ranges.
#include "engine/core/ranges.h"

#include <gtest/gtest.h>

namespace busbw {
namespace {

TEST(Ranges, JoinNumbersThatFollowEachOther) {
  EXPECT_EQ(ranges({0, 1, 2, 7, 30, 31}), "0-2,7,30-31");
  EXPECT_EQ(ranges({5}), "5");
  EXPECT_EQ(ranges({}), "");
}

}  // namespace
}  // namespace busbw

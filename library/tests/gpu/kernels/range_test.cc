// How work is cut: nothing is lost, nothing is done twice, and no part of two shots is empty.
#include "library/gpu/kernels/range.h"

#include <gtest/gtest.h>

#include <random>

namespace busbw::gpu {
namespace {

TEST(Range, PartsFollowOneAnotherAndDifferByOneAtMost) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 20'000; ++round) {
    const std::uint64_t begin = random() >> 20;
    const std::uint64_t size = random() >> (random() % 64);
    const std::uint64_t parts = 1 + random() % 200;
    if (size > (std::uint64_t{1} << 56)) continue;
    const Range whole{begin, begin + size};
    std::uint64_t at = begin;
    for (std::uint64_t i = 0; i < parts; ++i) {
      const Range part = whole.part(i, parts);
      ASSERT_EQ(part.begin, at);
      ASSERT_GE(part.size(), size / parts);
      ASSERT_LE(part.size(), (size + parts - 1) / parts);
      at = part.end;
    }
    ASSERT_EQ(at, whole.end);
  }
}

TEST(Range, PacksAndStepsRoundUp) {
  EXPECT_EQ(packs_of(0, 16), 0u);
  EXPECT_EQ(packs_of(1, 16), 1u);
  EXPECT_EQ(packs_of(16, 16), 1u);
  EXPECT_EQ(packs_of(17, 16), 2u);
  EXPECT_EQ(steps_of(0, 4, 4), 1u);
  EXPECT_EQ(steps_of(4, 4, 4), 1u);
  EXPECT_EQ(steps_of(33, 4, 4), 9u);
  EXPECT_EQ(steps_of(5, 4, 16), 1u) << "two would be shorter than the least";
  EXPECT_EQ(steps_of(17, 4, 16), 4u);
  EXPECT_EQ(steps_of(100, 4, 16), 8u) << "enough for a pipeline";
  EXPECT_EQ(steps_of(1000, 4, 16), 63u);
}

TEST(Range, SharesOfAStepFitTheSlots) {
  std::mt19937 random(2);
  for (int round = 0; round < 20'000; ++round) {
    const std::uint64_t ranks = 2 + random() % 7;
    const std::uint64_t slot = 1 + random() % 300;
    const Range part{0, random() % 20'000};
    const std::uint32_t steps = steps_of(part.size(), ranks * (1 + slot / 4), ranks * slot);
    for (std::uint32_t step = 0; step < steps; ++step)
      for (std::uint64_t rank = 0; rank < ranks; ++rank)
        ASSERT_LE(part.part(step, steps).part(rank, ranks).size(), slot);
  }
}

}  // namespace
}  // namespace busbw::gpu

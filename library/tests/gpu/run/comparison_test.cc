// Which way is faster by the blocks of one trial and of several.
#include "library/gpu/run/comparison.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace busbw::gpu {
namespace {

// Of NCCL's two blocks that are timed and of ours; whatever the others took.
BlockTimes times(const std::array<double, 2>& nccl, const std::array<double, 2>& ours) {
  return {900, nccl[0], 1, ours[0], ours[1], 900, nccl[1]};
}

TEST(Comparison, IsSureAtOnceWhereBothBlocksOfOneWayAreShorter) {
  Comparison ours, nccl, alike;
  ours.add(times({100, 101}, {97, 99}));
  EXPECT_TRUE(ours.sure());
  EXPECT_TRUE(ours.ours_are_faster());
  EXPECT_EQ(ours.nccl(), 100.5);
  EXPECT_EQ(ours.ours(), 98);
  nccl.add(times({100, 102}, {103, 103}));
  EXPECT_TRUE(nccl.sure());
  EXPECT_FALSE(nccl.ours_are_faster());
  alike.add(times({100, 100}, {99.8, 99.8}));
  EXPECT_TRUE(alike.sure());
  EXPECT_FALSE(alike.ours_are_faster()) << "no difference worth a choice";
}

TEST(Comparison, GoesOnWhereOneBlockWasHeldUp) {
  for (const std::size_t held_up : {0u, 1u}) {
    Comparison comparison;
    std::array<double, 2> ours{97, 97.1};
    ours[held_up] = 900;
    comparison.add(times({100, 100.1}, ours));
    EXPECT_FALSE(comparison.sure());
    comparison.add(times({100.2, 100.3}, {97.2, 97.3}));
    EXPECT_FALSE(comparison.sure()) << "4 of 16 pairs are against it";
    comparison.add(times({100.4, 100.5}, {97.4, 97.5}));
    EXPECT_TRUE(comparison.sure()) << "6 of 36 are";
    EXPECT_TRUE(comparison.ours_are_faster());
    EXPECT_NEAR(comparison.ours(), 97.35, 0.1);
  }
}

TEST(Comparison, EndsAfterSoManyTrials) {
  Comparison comparison;
  EXPECT_FALSE(comparison.sure());
  EXPECT_FALSE(comparison.ours_are_faster());
  for (int trial = 1; trial <= Comparison::most_trials; ++trial) {
    comparison.add(times({100, 90}, {91, 99}));
    EXPECT_EQ(comparison.sure(), trial == Comparison::most_trials) << trial;
  }
  comparison.forget();
  EXPECT_FALSE(comparison.sure());
}

// A GPU that gets warm.
TEST(Comparison, IsNotMovedByWhatGrowsSteadily) {
  BlockTimes blocks{};
  for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i] = 100 + double(i);
  Comparison comparison;
  comparison.add(blocks);
  EXPECT_FALSE(comparison.sure());
  EXPECT_EQ(comparison.nccl(), comparison.ours());
}

// Steps that scatter by 1 %, and now and then by 10 % more.
double share_for_ours(double ratio, std::mt19937& random) {
  std::normal_distribution<double> scatter(1, 0.01);
  const auto block = [&] { return scatter(random) + (random() % 50 == 0 ? 0.1 : 0); };
  int for_ours = 0;
  constexpr int programs = 2000;
  for (int program = 0; program < programs; ++program) {
    Comparison comparison;
    while (!comparison.sure()) {
      comparison.add(times({block(), block()}, {ratio * block(), ratio * block()}));
    }
    for_ours += comparison.ours_are_faster();
  }
  return double(for_ours) / programs;
}

TEST(Comparison, IsRightAboutWhatMatters) {
  std::mt19937 random(11);
  EXPECT_GT(share_for_ours(0.96, random), 0.98);
  EXPECT_GT(share_for_ours(0.98, random), 0.9);
  EXPECT_LT(share_for_ours(1.01, random), 0.1);
  EXPECT_LT(share_for_ours(1.03, random), 0.01);
}

}  // namespace
}  // namespace busbw::gpu

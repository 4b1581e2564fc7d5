// Trials: what one rank writes down holds for all from the same call on, at whatever speed they come.
#include "library/gpu/join/trial.h"

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <random>
#include <thread>
#include <vector>

namespace busbw::gpu::test {
namespace {

using Way = Trial::Way;
using Vote = Trial::Vote;

struct Ranks {
  explicit Ranks(int count) {
    for (int rank = 0; rank < count; ++rank) all.emplace_back(words, rank, count);
  }
  Trial& operator[](int rank) { return all[std::size_t(rank)]; }
  Trial::Words words{};
  std::deque<Trial> all;
};

constexpr std::uint32_t block = 10;
std::uint32_t a_block(bool) { return block; }
std::uint32_t none(bool) { return 0; }
std::uint32_t only_again(bool again) { return again ? block : 0; }

TEST(Trial, BeginsAtTheFirstStartPointWhereARankKnowsItsSteps) {
  Ranks ranks(2);
  ranks[0].come_to(63, a_block);
  EXPECT_EQ(ranks[0].plan(63).trial, -1) << "no start point yet";
  EXPECT_EQ(ranks[0].way(63), Way::as_voted);
  ranks[0].come_to(64, none);
  ranks[1].come_to(100, a_block);
  EXPECT_EQ(ranks[1].plan(100).trial, -1) << "none began at 64, and that holds for all";
  ranks[1].come_to(128, a_block);
  ranks[0].come_to(130, [](bool) {
    ADD_FAILURE() << "rank 1 has settled it";
    return 0u;
  });
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(ranks[rank].plan(130).first, 128u);
    EXPECT_EQ(ranks[rank].plan(130).block, block);
    EXPECT_EQ(ranks[rank].way(127), Way::as_voted);
    for (std::uint64_t call = 128; call < 128 + block * Trial::blocks; ++call) {
      EXPECT_EQ(ranks[rank].way(call), Trial::ways[(call - 128) / block]) << call;
    }
  }
}

TEST(Trial, TakesOursOnceAllRanksHaveFoundItFaster) {
  Ranks ranks(3);
  for (int rank = 0; rank < 3; ++rank) ranks[rank].come_to(64, a_block);
  EXPECT_EQ(ranks[0].way(64 + 8 * block), Way::nccl) << "nobody has voted";
  ranks[0].vote(0, Vote::ours);
  ranks[1].vote(0, Vote::ours);
  EXPECT_EQ(ranks[1].way(64 + 9 * block), Way::nccl) << "a vote is missing";
  ranks[2].vote(0, Vote::ours);
  EXPECT_EQ(ranks[2].way(64 + 9 * block + 5), Way::nccl) << "others have gone by this already";
  EXPECT_EQ(ranks[2].way(64 + 11 * block), Way::nccl) << "as before, until votes are counted again";
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(ranks[rank].way(64 + 12 * block), Way::ours);
    EXPECT_EQ(ranks[rank].way(64 + 1000 * block), Way::ours);
    EXPECT_EQ(ranks[rank].way(~std::uint64_t{0}), Way::ours);
  }
}

TEST(Trial, TakesNcclWhereOneRankRefuses) {
  Ranks ranks(2);
  for (int rank = 0; rank < 2; ++rank) ranks[rank].come_to(64, a_block);
  ranks[0].vote(0, Vote::ours);
  ranks[1].vote(0, Vote::nccl);
  for (const std::uint64_t blocks : {8, 12, 40, 4000}) EXPECT_EQ(ranks[0].way(64 + blocks * block), Way::nccl);
}

TEST(Trial, IsMadeAgainWhereARankFoundNothingAndFromAStartPointOn) {
  Ranks ranks(2);
  for (int rank = 0; rank < 2; ++rank) ranks[rank].come_to(64, a_block);
  ranks[0].vote(0, Vote::ours);
  ranks[1].vote(0, Vote::again);
  const std::uint64_t counted = 64 + 8 * block;  // 144
  EXPECT_EQ(ranks[0].way(counted), Way::nccl);
  ranks[1].come_to(counted + 5, a_block);
  EXPECT_EQ(ranks[1].plan(counted + 5).trial, 0) << "128 lies within the first one";
  ranks[1].come_to(192, only_again);
  ranks[0].come_to(192, none);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(ranks[rank].plan(192).first, 192u);
    EXPECT_EQ(ranks[rank].way(192 + 2 * block), Way::ours);
    ranks[rank].vote(1, Vote::ours);
  }
  EXPECT_EQ(ranks[0].way(192 + 8 * block), Way::ours);
  EXPECT_EQ(ranks[1].way(counted), Way::nccl) << "earlier calls are as they were";
}

// Blocks of 64 calls, so that a start point lies right behind them.
TEST(Trial, IsMadeAgainAtOnceAndOnlyWhereAllHaveVoted) {
  constexpr std::uint64_t behind = 64 + 8 * 64;  // 576, a start point
  for (const bool all : {true, false}) {
    Ranks ranks(2);
    ranks[0].come_to(64, [](bool) { return 64u; });
    if (all) ranks[0].vote(0, Vote::ours);
    ranks[1].vote(0, Vote::again);
    ranks[0].come_to(behind, [](bool again) { return again ? 64u : 0u; });
    EXPECT_EQ(ranks[0].plan(behind).trial, all ? 1 : 0);
  }
}

// Two ranks count at once, while a vote comes.
TEST(Trial, IsCountedAlikeByRanksThatCountAtOnce) {
  int late = 0;
  for (int round = 0; round < 3000; ++round) {
    Ranks ranks(2);
    ranks[0].come_to(64, a_block);
    ranks[0].vote(0, Vote::ours);
    std::atomic<int> ready{0};
    Way first{}, second{};
    const auto together = [&] {
      ++ready;
      while (ready < 2) std::this_thread::yield();
    };
    std::thread other([&] {
      together();
      first = ranks[0].way(64 + 8 * block);
    });
    together();
    ranks[1].vote(0, Vote::ours);
    second = ranks[1].way(64 + 8 * block);
    other.join();
    ASSERT_EQ(first, second) << round;
    late += second == Way::nccl;
  }
  RecordProperty("counted before the vote", late);
}

TEST(Trial, IsMadeAgainLaterWhereARankAsksForIt) {
  Ranks ranks(2);
  ranks[0].come_to(64, a_block);  // to call 184
  for (int rank = 0; rank < 2; ++rank) ranks[rank].vote(0, Vote::ours);
  ranks[0].come_to(128, a_block);
  EXPECT_EQ(ranks[0].plan(128).trial, 0) << "it goes on";
  EXPECT_EQ(ranks[0].way(184), Way::ours);
  ranks[0].come_to(255, a_block);
  EXPECT_EQ(ranks[0].plan(255).trial, 0);
  EXPECT_EQ(ranks[0].way(255), Way::ours);
  ranks[0].come_to(256, a_block);
  ranks[1].come_to(256, none);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(ranks[rank].way(255), Way::ours);
    EXPECT_EQ(ranks[rank].plan(256).trial, 1);
    EXPECT_EQ(ranks[rank].way(256), Way::nccl) << "the new one begins with NCCL";
    ranks[rank].vote(1, Vote::nccl);
    EXPECT_EQ(ranks[rank].way(256 + 8 * block), Way::nccl);
  }
}

TEST(Trial, IsMadeSoManyTimesAtMost) {
  Ranks ranks(1);
  std::uint64_t call = 0;
  for (int trial = 0; trial < Trial::trials; ++trial) {
    while (ranks[0].plan(call).trial < trial) ranks[0].come_to(++call, a_block);
    ranks[0].vote(trial, Vote::again);
  }
  for (; call < 140'000; call += 50) {
    ranks[0].come_to(call, a_block);
    ASSERT_EQ(ranks[0].plan(call).trial, Trial::trials - 1);
  }
  EXPECT_EQ(ranks[0].way(call), Way::nccl);
}

TEST(Trial, IsWaitedForSoLongAndNoLonger) {
  Ranks ranks(2);
  ranks[0].come_to(Trial::patience - 1, none);
  EXPECT_EQ(ranks[0].way(Trial::patience - 1), Way::as_voted);
  ranks[0].come_to(Trial::patience, none);
  EXPECT_EQ(ranks[0].way(Trial::patience), Way::nccl) << "nobody has tried it";
  ranks[0].come_to(5120, a_block);
  EXPECT_EQ(ranks[0].plan(5120).first, 5120u);
  EXPECT_EQ(ranks[1].way(5120 + 2 * block), Way::ours);
  Ranks others(1);
  others[0].come_to(1'000'000, none);
  EXPECT_EQ(others[0].way(1'000'000), Way::nccl);
}

TEST(Trial, HasStartPointsThatRise) {
  for (int i = 1; i < Trial::start_points; ++i) ASSERT_LT(Trial::start_point(i - 1), Trial::start_point(i));
  EXPECT_EQ(Trial::start_point(Trial::start_points - 1), 131072u);
}

// Ranks at speeds of their own, each with another idea of its steps and of what is faster.
TEST(Trial, IsTheSameForAllRanksAtEveryCall) {
  constexpr int count = 4, calls = 6000;
  int tried = 0, taken = 0;
  for (unsigned seed = 0; seed < 24; ++seed) {
    Ranks ranks(count);
    std::vector<std::vector<Way>> went(count);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < count; ++rank) {
      threads.emplace_back([&, rank] {
        std::mt19937 random(seed * count + unsigned(rank));
        const auto proposal = [&](bool) { return random() % 4 == 0 ? 16 + random() % 64 : 0; };
        for (std::uint64_t call = 0; call < calls; ++call) {
          ranks[rank].come_to(call, proposal);
          went[std::size_t(rank)].push_back(ranks[rank].way(call));
          const Trial::Plan plan = ranks[rank].plan(call);
          if (plan.trial >= 0 && call == plan.first + 8 * plan.block + seed % 16) {
            const bool again = seed % 2 == 0 && plan.trial < 3 && rank == 2;
            ranks[rank].vote(plan.trial, again ? Vote::again : seed % 3 != 0 || rank != 1 ? Vote::ours : Vote::nccl);
          }
          if (random() % 64 == 0) std::this_thread::yield();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (int rank = 1; rank < count; ++rank) ASSERT_EQ(went[std::size_t(rank)], went[0]) << seed << ' ' << rank;
    tried += ranks[0].plan(calls).trial > 0;
    taken += went[0].back() == Way::ours;
  }
  EXPECT_GT(tried, 20) << "more than once";
  EXPECT_LT(taken, tried);
}

}  // namespace
}  // namespace busbw::gpu::test

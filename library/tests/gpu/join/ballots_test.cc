// Votes of ranks: whoever counts first counts for all, nobody waits, and a rank that refuses is heard.
#include "library/gpu/join/ballots.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "library/common/failure.h"

namespace busbw::gpu::test {
namespace {

using All = std::vector<std::unique_ptr<Ballots>>;

All ranks_with_one_page(int ranks) {
  All all;
  all.push_back(Ballots::make(0, ranks));
  for (int rank = 1; rank < ranks; ++rank) {
    all.push_back(Ballots::open(Descriptor(::dup(all[0]->descriptor().get())), rank, ranks));
  }
  return all;
}

TEST(Ballots, SayNoBeforeTheFirstCount) {
  const All all = ranks_with_one_page(2);
  for (const auto& rank : all) rank->vote(0, true);
  EXPECT_FALSE(all[0]->decided(0));
  EXPECT_FALSE(all[1]->decided(Ballots::first_count - 1));
}

TEST(Ballots, SayYesFromTheNextCountOnWhereAllRanksDid) {
  const All all = ranks_with_one_page(3);
  for (const auto& rank : all) rank->vote(3, true);
  for (const auto& rank : all) {
    EXPECT_TRUE(rank->decided(16));
    EXPECT_TRUE(rank->decided(63));
    EXPECT_TRUE(rank->decided(64)) << "nobody has voted since";
    EXPECT_TRUE(rank->decided(~std::uint64_t{0}));
  }
}

TEST(Ballots, SayNoWhereOneRankDidAtAnyCall) {
  const All all = ranks_with_one_page(2);
  for (const auto& rank : all) rank->vote(3, true);
  all[1]->vote(4, false);
  all[1]->vote(5, true);
  EXPECT_FALSE(all[0]->decided(16));
  EXPECT_FALSE(all[1]->decided(16));
  for (const auto& rank : all) rank->vote(20, true);
  EXPECT_TRUE(all[0]->decided(64)) << "each count has votes of its own";
  all[0]->vote(70, false);
  EXPECT_FALSE(all[1]->decided(256));
}

TEST(Ballots, HoldAsTheFirstRankHasCountedThemThoughOthersVoteLate) {
  const All all = ranks_with_one_page(2);
  all[0]->vote(1, true);
  EXPECT_FALSE(all[0]->decided(16)) << "a vote is missing";
  all[1]->vote(1, true);
  EXPECT_FALSE(all[1]->decided(16)) << "rank 0 has gone by this already";
  EXPECT_FALSE(all[0]->decided(17));
  EXPECT_FALSE(all[1]->decided(64)) << "votes of before are not counted again";
}

TEST(Ballots, AskForTwoVotesACount) {
  const All all = ranks_with_one_page(2);
  EXPECT_TRUE(all[0]->wants_vote(0));
  all[0]->vote(0, true);
  EXPECT_TRUE(all[0]->wants_vote(1));
  all[0]->vote(1, true);
  EXPECT_FALSE(all[0]->wants_vote(15));
  EXPECT_TRUE(all[0]->wants_vote(16));
  EXPECT_TRUE(all[1]->wants_vote(15)) << "each rank for itself";
  EXPECT_FALSE(all[0]->wants_vote(~std::uint64_t{0})) << "there is no count behind it";
}

// Ranks at speeds of their own, which vote as they like: at every call all go by the same.
TEST(Ballots, AreTheSameForAllRanksAtEveryCall) {
  constexpr int ranks = 4, calls = 3000;
  for (unsigned seed = 0; seed < 8; ++seed) {
    const All all = ranks_with_one_page(ranks);
    std::vector<std::vector<bool>> went_by(ranks);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        std::mt19937 random(seed * ranks + unsigned(rank));
        for (std::uint64_t call = 0; call < calls; ++call) {
          if (random() % 8 == 0) all[std::size_t(rank)]->vote(call, random() % 16 != 0);
          went_by[std::size_t(rank)].push_back(all[std::size_t(rank)]->decided(call));
          if (random() % 64 == 0) std::this_thread::yield();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (int rank = 1; rank < ranks; ++rank) ASSERT_EQ(went_by[std::size_t(rank)], went_by[0]) << seed << ' ' << rank;
  }
}

TEST(Ballots, TakeNoPageThatSomebodyCouldTakeAway) {
  const auto refused = [](Descriptor page) {
    try {
      Ballots::open(std::move(page), 1, 2);
    } catch (const Failure&) {
      return true;
    }
    return false;
  };
  EXPECT_TRUE(refused(Descriptor(::open("/dev/null", O_RDWR | O_CLOEXEC))));
  EXPECT_TRUE(refused(Descriptor()));
  Descriptor unsealed(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(unsealed.get(), 4096), 0);
  EXPECT_TRUE(refused(std::move(unsealed)));
  Descriptor shorter(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(shorter.get(), 100), 0);
  ASSERT_EQ(::fcntl(shorter.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_TRUE(refused(std::move(shorter)));
}

}  // namespace
}  // namespace busbw::gpu::test

// Offers of ranks for a call: all or none, whoever says it first, and nobody waits without a bound.
#include "library/gpu/join/consent.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

namespace busbw::gpu::test {
namespace {

struct Job {
  explicit Job(int ranks) : words(std::make_unique<Consent::Words>()) {
    for (int rank = 0; rank < ranks; ++rank) all.push_back(std::make_unique<Consent>(*words, rank, ranks));
  }
  // Every rank lists an allocation, and all have opened it.
  std::vector<Consent::Offer> open_everywhere(int index = 0) {
    std::vector<Consent::Offer> offers;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      RangeHandle range{};
      range.allocation = 1000 + rank;
      range.handle.bytes[0] = static_cast<unsigned char>(rank);
      const std::uint32_t edition = all[rank]->put(index, range);
      for (std::size_t peer = 0; peer < all.size(); ++peer) all[peer]->say_opened(int(rank), index, edition);
      offers.push_back({.allocation = std::uint32_t(index), .edition = edition, .offset = 64 * rank});
    }
    return offers;
  }
  std::unique_ptr<Consent::Words> words;
  std::vector<std::unique_ptr<Consent>> all;
};

bool never() { return false; }

TEST(Consent, IsThereWhereAllHaveOfferedAndOpened) {
  Job job(3);
  const auto offers = job.open_everywhere(5);
  EXPECT_FALSE(job.all[0]->meet(offers[0], never)) << "the others are not there";
  EXPECT_TRUE(job.all[0]->missed());
  EXPECT_FALSE(job.all[1]->meet(offers[1], never)) << "what was said first holds";
  EXPECT_FALSE(job.all[2]->meet(offers[2], never));
  EXPECT_FALSE(job.all[2]->missed());
  std::vector<std::thread> threads;
  std::mutex guard;
  int yes = 0;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      const auto found = job.all[std::size_t(rank)]->meet(offers[std::size_t(rank)], [] { return true; });
      const std::lock_guard lock(guard);
      ASSERT_TRUE(found);
      ++yes;
      for (std::size_t of = 0; of < 3; ++of) {
        EXPECT_EQ((*found)[of].offset, 64 * of);
        EXPECT_EQ((*found)[of].allocation, 5U);
        EXPECT_EQ((*found)[of].edition, offers[of].edition);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(yes, 3);
}

// The last one comes and finds all others there.
bool agreed(Job& job, const std::vector<std::optional<Consent::Offer>>& offers) {
  std::vector<std::thread> threads;
  std::atomic<int> yes{0};
  for (std::size_t rank = 0; rank < job.all.size(); ++rank) {
    threads.emplace_back([&, rank] { yes += job.all[rank]->meet(offers[rank], [] { return true; }).has_value(); });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(yes == 0 || yes == int(job.all.size())) << yes;
  return yes > 0;
}

TEST(Consent, IsMissingWhereOneLendsNothingOrHasNotOpened) {
  Job job(2);
  const auto offers = job.open_everywhere();
  EXPECT_TRUE(agreed(job, {offers[0], offers[1]}));
  EXPECT_FALSE(agreed(job, {offers[0], std::nullopt}));
  EXPECT_FALSE(agreed(job, {std::nullopt, std::nullopt}));
  job.all[1]->say_opened(0, 0, 0);
  EXPECT_FALSE(agreed(job, {offers[0], offers[1]})) << "rank 1 has closed it";
  job.all[1]->say_opened(0, 0, offers[0].edition);
  EXPECT_TRUE(agreed(job, {offers[0], offers[1]}));
  Consent::Offer newer = offers[0];
  newer.edition += 2;
  EXPECT_FALSE(agreed(job, {newer, offers[1]})) << "rank 1 has opened what was there before";
}

TEST(Consent, IsOverForGoodWhereARankIsTooFarBehind) {
  Job job(2);
  const auto offers = job.open_everywhere();
  for (std::uint64_t call = 0; call < Consent::slots + 10; ++call) {
    EXPECT_FALSE(job.all[0]->meet(offers[0], never)) << call;
  }
  for (std::uint64_t call = 0; call < Consent::slots + 10; ++call) {
    EXPECT_FALSE(job.all[1]->meet(offers[1], never)) << call;
  }
  EXPECT_FALSE(agreed(job, {offers[0], offers[1]})) << "nothing begins again";
}

TEST(Consent, GoesOnWhereARankIsBehindByLess) {
  Job job(2);
  const auto offers = job.open_everywhere();
  for (std::uint64_t call = 0; call < Consent::slots; ++call) EXPECT_FALSE(job.all[0]->meet(offers[0], never));
  for (std::uint64_t call = 0; call < Consent::slots; ++call) EXPECT_FALSE(job.all[1]->meet(offers[1], never));
  EXPECT_TRUE(agreed(job, {offers[0], offers[1]}));
}

// Ranks at any speed, which wait or not as they like and lend or not: for each call all say the same, and yes only
// where all lent.
TEST(Consent, IsTheSameOnAllRanksAtAnySpeed) {
  for (std::uint32_t seed = 0; seed < 10; ++seed) {
    const int ranks = 2 + int(seed % 3);
    Job job(ranks);
    const auto offers = job.open_everywhere();
    constexpr int calls = 700;
    std::vector<std::vector<char>> said(static_cast<std::size_t>(ranks), std::vector<char>(calls)), lent = said;
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < std::size_t(ranks); ++rank) {
      threads.emplace_back([&, rank] {
        std::mt19937 random(seed * 10 + std::uint32_t(rank));
        const std::uint32_t patience = seed % 2 == 0 ? 2000 : 40;
        for (int call = 0; call < calls; ++call) {
          std::uint32_t looks = random() % 8 == 0 ? 0 : patience;
          lent[rank][std::size_t(call)] = random() % 10 != 0;
          if (random() % 100 == 0) std::this_thread::yield();
          const auto found =
              job.all[rank]->meet(lent[rank][std::size_t(call)] ? std::optional(offers[rank]) : std::nullopt, [&] {
                if (looks % 16 == 15) std::this_thread::yield();
                return looks-- > 0;
              });
          said[rank][std::size_t(call)] = found.has_value();
        }
      });
    }
    for (auto& thread : threads) thread.join();
    for (std::size_t call = 0; call < calls; ++call) {
      for (std::size_t rank = 0; rank < std::size_t(ranks); ++rank) {
        ASSERT_EQ(said[rank][call], said[0][call]) << "seed " << seed << ", call " << call;
        if (said[0][call]) {
          ASSERT_TRUE(lent[rank][call]);
        }
      }
    }
  }
}

TEST(Consent, ListsWhatARankPutsAndWithdraws) {
  Job job(2);
  EXPECT_EQ(job.all[1]->listed(0, 3).edition, 0U);
  RangeHandle range{};
  range.allocation = 77;
  for (std::size_t i = 0; i < sizeof range.handle.bytes; ++i) range.handle.bytes[i] = static_cast<unsigned char>(i + 1);
  const std::uint32_t before = job.all[1]->version(0);
  const std::uint32_t edition = job.all[0]->put(3, range);
  EXPECT_NE(job.all[1]->version(0), before);
  const Consent::Listed listed = job.all[1]->listed(0, 3);
  EXPECT_EQ(listed.edition, edition);
  EXPECT_EQ(listed.range.allocation, 77U);
  EXPECT_EQ(std::memcmp(listed.range.handle.bytes, range.handle.bytes, sizeof range.handle.bytes), 0);
  job.all[0]->withdraw(3);
  EXPECT_EQ(job.all[1]->listed(0, 3).edition, 0U);
  EXPECT_NE(job.all[0]->put(3, range), edition) << "another allocation in the same place is another edition";
}

}  // namespace
}  // namespace busbw::gpu::test

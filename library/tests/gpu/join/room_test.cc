// Shares of a GPU: kernels of all communicators fit on it at once, and no order in which ranks start them hangs.
#include "library/gpu/join/room.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <numeric>
#include <random>
#include <set>
#include <thread>

#include "library/gpu/choose/names.h"
#include "library/gpu/join/wishes.h"

namespace busbw::gpu {
namespace {

constexpr int no_limit = 0x7fffffff;

TEST(Room, IsDividedAmongThoseWhoShareAGpu) {
  DeviceFacts facts;
  facts.multiprocessors = 132;
  facts.uuid[0] = 77;
  EXPECT_EQ(Room::part_of(facts, 1), 132);
  EXPECT_EQ(Room::part_of(facts, 4), 33);
  EXPECT_EQ(Room::part_of(facts, 1000), 1);
  EXPECT_EQ(Room::of(facts, 4)->multiprocessors(), 33);
}

std::shared_ptr<Room> h200() { return std::make_shared<Room>(132); }

int held(const Room& room) {
  int sum = 0;
  for (const auto& share : room.members()) sum += share->held();
  return sum;
}

TEST(FairShare, IsNearlyTheWholeGpuForOneAndNeverMoreThanItForAll) {
  EXPECT_EQ(fair_share(132, 1), 128);
  EXPECT_EQ(fair_share(132, 2), 64);
  EXPECT_EQ(fair_share(132, 8), 16);
  EXPECT_EQ(fair_share(132, 64), 2);
  for (int multiprocessors = 1; multiprocessors <= 200; ++multiprocessors) {
    for (int population = 1; population <= multiprocessors; ++population) {
      EXPECT_GE(fair_share(multiprocessors, population), 1);
      if (population > multiprocessors - 4) continue;
      EXPECT_LE(fair_share(multiprocessors, population) * population, multiprocessors);
    }
  }
}

TEST(Room, SixtyFourCommunicatorsAllHaveAPlaceWhereTheOldOnesMakeRoom) {
  const auto room = h200();
  std::vector<std::shared_ptr<Share>> shares;
  for (int i = 0; i < 64; ++i) {
    shares.push_back(room->enter(no_limit, 1));
    EXPECT_GE(shares.back()->now().blocks, 2) << i;
    // What the exchange does.
    for (const auto& share : shares) share->narrow(0, fair_share(132, room->population()));
  }
  EXPECT_LE(held(*room), 132);
}

TEST(Room, NeverGivesAwayMoreThanFitsThoughNobodyMakesRoom) {
  const auto room = h200();
  std::vector<std::shared_ptr<Share>> shares;
  for (int i = 0; i < 100; ++i) {
    shares.push_back(room->enter(no_limit, 1));
    EXPECT_LE(held(*room), 264);
  }
  EXPECT_EQ(shares.back()->now().blocks, 0);
  shares.clear();
  EXPECT_EQ(room->enter(no_limit, 1)->now().blocks, 128);
}

TEST(Room, HonoursTheWishesOfTheProgram) {
  const auto room = h200();
  const auto few = room->enter(4, 1);
  EXPECT_EQ(few->now().blocks, 4);
  // As many as are asked for at least, or none.
  const auto many = room->enter(no_limit, 100);
  EXPECT_EQ(many->now().blocks, 100);
  EXPECT_EQ(room->enter(no_limit, 200)->now().blocks, 0);
}

TEST(Room, AGraphKeepsItsPlace) {
  const auto room = h200();
  const auto captured = room->enter(no_limit, 1);
  captured->keep();
  captured->narrow(0, 2);
  EXPECT_EQ(captured->next().blocks, 2);
  EXPECT_EQ(captured->held(), 128);
}

TEST(Share, ChangesAtTheCallThatWasAgreed) {
  const auto room = h200();
  const auto share = room->enter(no_limit, 1);
  share->narrow(2, 32);
  share->narrow(3, 16);
  EXPECT_EQ(share->next().blocks, 128);
  EXPECT_EQ(share->next().blocks, 128);
  EXPECT_EQ(share->now().blocks, 32);
  EXPECT_EQ(share->next().blocks, 32);
  EXPECT_EQ(share->next().blocks, 16);
  EXPECT_EQ(share->next().blocks, 16);
}

TEST(Share, KeepsOnlyChangesThatMakeADifference) {
  const auto room = h200();
  const auto share = room->enter(no_limit, 1);
  share->narrow(4, 16);
  share->narrow(6, 32);  // no smaller
  share->narrow(2, 32);
  share->narrow(5, 8);
  share->narrow(3, 8);  // and so the last one says nothing any more
  std::vector<int> limits;
  for (int i = 0; i < 7; ++i) limits.push_back(share->next().blocks);
  EXPECT_EQ(limits, (std::vector<int>{128, 128, 32, 8, 8, 8, 8}));
}

// Two communicators that are made at once, each on a thread of its own, on ranks where these come in other orders.
TEST(Share, IsFrozenByTwoSideBySide) {
  const auto room = h200();
  const auto share = room->enter(no_limit, 1);
  share->next();
  EXPECT_EQ(share->freeze(), 1u);
  std::thread other([&] { EXPECT_EQ(share->freeze(), 1u) << "waits for nobody"; });
  other.join();
  std::atomic<bool> gone{false};
  std::thread call([&] {
    share->next();
    gone = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  share->thaw();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(gone) << "the other one is not ready";
  share->thaw();
  call.join();
}

// Where the blocks of any kernels go
// ---------------------------------------------------------------------------------------------------

// A block takes half of a multiprocessor or less. As long as no more than two for each multiprocessor are there, the
// next one finds room, wherever the GPU has put those before it.
TEST(Placement, EveryBlockFindsRoomWhereverTheOthersAre) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    const int multiprocessors = 1 + int(random() % 20);
    std::vector<int> load(std::size_t(multiprocessors), 0);  // in sixteenths
    for (int block = 0; block < 2 * multiprocessors; ++block) {
      const int size = 1 + int(random() % 8);
      std::vector<std::size_t> fits;
      for (std::size_t at = 0; at < load.size(); ++at) {
        if (load[at] + size <= 16) fits.push_back(at);
      }
      ASSERT_FALSE(fits.empty()) << multiprocessors << " multiprocessors, block " << block;
      load[fits[random() % fits.size()]] += size;
    }
  }
}

// Every order of launches, exhaustively
// ---------------------------------------------------------------------------------------------------

// Ranks start one kernel of each communicator in an order of their own. A kernel takes its places as far as there are
// any, keeps them until the kernel of its communicator is complete on all ranks, and a later one starts behind it. True
// if all end.
bool all_end(const std::vector<std::vector<int>>& orders, const std::vector<int>& blocks, int places) {
  const std::size_t ranks = orders.size();
  std::vector<std::size_t> started(ranks, 0);
  std::vector<int> left(ranks, places);
  std::vector<std::set<int>> resident(ranks);
  std::size_t ended = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      while (started[rank] < orders[rank].size() && blocks[std::size_t(orders[rank][started[rank]])] <= left[rank]) {
        const int next = orders[rank][started[rank]++];
        left[rank] -= blocks[std::size_t(next)];
        resident[rank].insert(next);
        moved = true;
      }
    }
    for (int one = 0; one < int(blocks.size()); ++one) {
      const bool everywhere =
          std::all_of(resident.begin(), resident.end(), [&](const auto& r) { return r.contains(one); });
      if (!everywhere) continue;
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        resident[rank].erase(one);
        left[rank] += blocks[std::size_t(one)];
      }
      ++ended;
      moved = true;
    }
  }
  return ended == blocks.size();
}

template <class Body>
void for_each_order(int communicators, int ranks, Body body) {
  std::vector<int> order(std::size_t(communicators), 0);
  std::iota(order.begin(), order.end(), 0);
  std::vector<std::vector<int>> permutations;
  do permutations.push_back(order);
  while (std::next_permutation(order.begin(), order.end()));
  // Rank 0 is the first by name only.
  std::vector<std::size_t> at(std::size_t(ranks), 0);
  for (;;) {
    std::vector<std::vector<int>> orders;
    for (const std::size_t one : at) orders.push_back(permutations[one]);
    body(orders);
    std::size_t rank = 1;
    while (rank < at.size() && ++at[rank] == permutations.size()) at[rank++] = 0;
    if (rank == at.size()) return;
  }
}

TEST(Orders, NoneHangsWithTheSharesOfTheRoom) {
  for (const auto& [communicators, ranks] : {std::pair(2, 4), std::pair(3, 3), std::pair(4, 3), std::pair(6, 2)}) {
    const auto room = h200();
    std::vector<std::shared_ptr<Share>> shares;
    for (int i = 0; i < communicators; ++i) shares.push_back(room->enter(no_limit, 1));
    std::vector<int> blocks;
    for (const auto& share : shares) blocks.push_back(share->now().blocks);
    for_each_order(communicators, ranks, [&](const auto& orders) { ASSERT_TRUE(all_end(orders, blocks, 264)); });
  }
}

TEST(Orders, SomeHangWhereEveryCommunicatorTakesTheWholeGpu) {
  int hung = 0;
  for_each_order(4, 3, [&](const auto& orders) { hung += !all_end(orders, {128, 128, 128, 128}, 264); });
  EXPECT_GT(hung, 0);
}

// NCCL's kernels take a whole multiprocessor for each of 16 channels, ours no more blocks than that once they share a
// GPU. Whichever of the communicators are in a kernel of ours and which in one of NCCL's: what NCCL survives, all do.
TEST(Orders, NoneHangsForAnyMixtureWithNcclsKernelsThatNcclSurvives) {
  constexpr int communicators = 8;
  std::vector<int> nccl(communicators, 16);
  ASSERT_LE(std::accumulate(nccl.begin(), nccl.end(), 0), 132);
  for (unsigned by_nccl = 0; by_nccl < 1u << communicators; ++by_nccl) {
    int multiprocessors = 0;
    for (int one = 0; one < communicators; ++one) {
      multiprocessors += by_nccl >> one & 1 ? nccl[std::size_t(one)] : fair_share(132, communicators);
    }
    ASSERT_LE(multiprocessors, 132);
  }
}

// NCCL takes 32 channels at most on NVLink, and fewer for a short message.
TEST(Orders, UpToFourCommunicatorsFitInAnyMixture) {
  constexpr int most_channels = 32;
  for (int communicators = 2; communicators <= 4; ++communicators) {
    for (int by_nccl = 0; by_nccl <= communicators; ++by_nccl) {
      const int ours = (communicators - by_nccl) * fair_share(132, communicators);
      EXPECT_LE(by_nccl * most_channels + ours, 132) << by_nccl << " of " << communicators;
    }
  }
}

// Wishes
// ---------------------------------------------------------------------------------------------------

class WishesOf : public ::testing::Test {
 protected:
  ~WishesOf() override {
    for (const char* name :
         {"NCCL_MAX_CTAS", "NCCL_MIN_CTAS", "NCCL_CTA_POLICY", "NCCL_COMM_BLOCKING", "NCCL_P2P_DISABLE",
          "NCCL_P2P_LEVEL", "NCCL_CHECK_POINTERS", "NCCL_CHECK_MODE", "NCCL_GRAPH_MIXING_SUPPORT"})
      ::unsetenv(name);
  }
  static ncclConfig_t config() {
    ncclConfig_t config;
    std::fill_n(reinterpret_cast<int*>(&config), sizeof config / sizeof(int), int(NCCL_CONFIG_UNDEF_INT));
    config.size = sizeof config;
    return config;
  }
};

TEST_F(WishesOf, NothingAreNcclsDefaults) {
  const Wishes wishes = wishes_of(nullptr);
  EXPECT_TRUE(wishes.blocking);
  EXPECT_EQ(wishes.ceiling(), no_limit);
  EXPECT_EQ(wishes.least_blocks, 1);
}

TEST_F(WishesOf, AConfigAreItsFields) {
  ncclConfig_t given = config();
  given.blocking = 0;
  given.minCTAs = 2;
  given.maxCTAs = 4;
  const Wishes wishes = wishes_of(&given);
  EXPECT_FALSE(wishes.blocking);
  EXPECT_EQ(wishes.ceiling(), 4);
  EXPECT_EQ(wishes.least_blocks, 2);
}

TEST_F(WishesOf, AShorterConfigAreNotReadBeyondItsEnd) {
  ncclConfig_t given = config();
  given.maxCTAs = 4;
  given.CTAPolicy = NCCL_CTA_POLICY_ZERO;
  given.size = offsetof(ncclConfig_t, CTAPolicy);
  EXPECT_EQ(wishes_of(&given).policy, NCCL_CTA_POLICY_DEFAULT);
  given.size = offsetof(ncclConfig_t, maxCTAs);
  EXPECT_EQ(wishes_of(&given).ceiling(), no_limit);
}

TEST_F(WishesOf, TheEnvironmentOverrulesTheConfig) {
  ncclConfig_t given = config();
  given.maxCTAs = 4;
  given.blocking = 0;
  ::setenv("NCCL_MAX_CTAS", "8", 1);
  ::setenv("NCCL_COMM_BLOCKING", "1", 1);
  ::setenv("NCCL_CTA_POLICY", "EFFICIENCY|ZERO", 1);
  const Wishes wishes = wishes_of(&given);
  EXPECT_EQ(wishes.most_blocks, 8);
  EXPECT_TRUE(wishes.blocking);
  EXPECT_EQ(wishes.policy, NCCL_CTA_POLICY_EFFICIENCY | NCCL_CTA_POLICY_ZERO);
}

TEST_F(WishesOf, APolicyThatSparesMultiprocessorsAreNoMoreThanNcclsChannels) {
  ncclConfig_t given = config();
  given.CTAPolicy = NCCL_CTA_POLICY_EFFICIENCY;
  EXPECT_EQ(wishes_of(&given).ceiling(), 32);
}

// As NCCL: 2 and nothing at all are graphs and eager calls side by side, and the environment overrules it.
TEST_F(WishesOf, GraphsAndEagerCallsSideBySideAreTheDefault) {
  ncclConfig_t given = config();
  EXPECT_TRUE(wishes_of(&given).mixes_graphs);
  for (const int mode : {0, 1, 2}) {
    given.graphUsageMode = mode;
    EXPECT_EQ(wishes_of(&given).mixes_graphs, mode == 2);
    EXPECT_EQ(wishes_of(nullptr, wishes_of(&given)).mixes_graphs, mode == 2) << "a child is like its parent";
    ::setenv("NCCL_GRAPH_MIXING_SUPPORT", "0", 1);
    EXPECT_FALSE(wishes_of(&given).mixes_graphs);
    ::setenv("NCCL_GRAPH_MIXING_SUPPORT", "1", 1);
    EXPECT_TRUE(wishes_of(&given).mixes_graphs);
    ::unsetenv("NCCL_GRAPH_MIXING_SUPPORT");
  }
}

TEST_F(WishesOf, SettingsThatForbidOursAreNcclsOwn) {
  using Setting = std::pair<const char*, const char*>;
  EXPECT_EQ(what_bars_ours(), "");
  for (const auto& [name, value] :
       {Setting("NCCL_P2P_DISABLE", "1"), Setting("NCCL_P2P_LEVEL", "LOC"), Setting("NCCL_P2P_LEVEL", "0"),
        Setting("NCCL_CHECK_POINTERS", "1"), Setting("NCCL_CHECK_MODE", "DEBUG_GLOBAL")}) {
    ::setenv(name, value, 1);
    EXPECT_NE(what_bars_ours().find(name), std::string::npos) << name << '=' << value;
    ::unsetenv(name);
  }
  for (const auto& [name, value] :
       {Setting("NCCL_P2P_DISABLE", "0"), Setting("NCCL_P2P_LEVEL", "NVL"), Setting("NCCL_P2P_LEVEL", "5"),
        Setting("NCCL_P2P_LEVEL", ""), Setting("NCCL_CHECK_POINTERS", "0"), Setting("NCCL_CHECK_MODE", "DEFAULT")}) {
    ::setenv(name, value, 1);
    EXPECT_EQ(what_bars_ours(), "") << name << '=' << value;
    ::unsetenv(name);
  }
}

// Blocks of at most half a multiprocessor, which all of the above counts on: 65536 registers and 2048 threads, and a
// kernel of so many threads has no more registers than instances.h lets it.
TEST(Blocks, OfEveryKernelTakeHalfOfAMultiprocessorAtMost) {
  for (const KernelKind& kind : kernel_kinds) {
    for (int ranks = 2; ranks <= max_ranks; ++ranks) {
      const int compiled_for = kind.protocol == Protocol::ll || ranks <= 4 ? 512 : 320;
      const int blocks = kind.protocol == Protocol::ll ? 1 : 2;
      const int registers = 65536 / (compiled_for * blocks);
      EXPECT_LE(most_threads(kind, ranks) * registers, 32768) << name(kind.collective) << ' ' << name(kind.protocol);
      EXPECT_LE(most_threads(kind, ranks), 1024);
    }
  }
}

}  // namespace
}  // namespace busbw::gpu

// The arithmetic of slots, epochs, parts and chunks.
#include "library/cpu/layout.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <vector>

#include "library/cpu/settings.h"

namespace busbw::cpu {
namespace {

TEST(Layout, KeepsEverySlotRingAndRecordApartForAnyNumberOfRanks) {
  for (const int ranks : {1, 2, 3, 8, 17, 64}) {
    const Layout layout = Layout::for_ranks(ranks);
    std::map<std::size_t, std::size_t> areas{{0, page}};  // begin -> end
    const auto claim = [&](std::size_t begin, std::size_t bytes) {
      EXPECT_TRUE(areas.emplace(begin, begin + bytes).second) << begin;
    };
    for (int rank = 0; rank < ranks; ++rank) {
      claim(layout.record_offset(rank), Layout::record_bytes);
      for (int set = 0; set < slot_sets; ++set) claim(layout.slot_offset(rank, set), layout.slot_bytes + 64);
      for (int to = 0; to < ranks; ++to) {
        claim(layout.ring_offset(rank, to), 64);
        for (std::uint32_t entry = 0; entry < ring_entries; ++entry) {
          claim(layout.entry_offset(rank, to, entry), layout.ring_bytes + 64);
        }
      }
    }
    std::size_t end = 0;
    for (const auto& [begin, area_end] : areas) {
      EXPECT_GE(begin, end) << "two areas overlap with " << ranks << " ranks";
      EXPECT_EQ(begin % 64, 0u);
      end = area_end;
    }
    EXPECT_LE(end, layout.total_bytes());
  }
}

TEST(Layout, GivesEveryRankOfTheLargestCommunicatorRoomForOneElement) {
  EXPECT_GE(Layout::for_ranks(max_ranks).slot_bytes / max_ranks, 8u);
}

TEST(Epochs, UseTheSetsInTurnAcrossTheWrapAround) {
  Epoch epoch = 0xfffffffe;
  int previous = slot_set(epoch);
  for (int i = 0; i < 8; ++i) {
    const int next = slot_set(++epoch);
    EXPECT_EQ(next, (previous + 1) % slot_sets);
    previous = next;
  }
}

// The rule on top of layout.h, played through for every order of progress of two ranks that it allows.
TEST(Epochs, NeverLetARankOverwriteWhatAPeerStillReads) {
  for (int published = 4; published < 40; ++published) {
    // A rank that publishes `published` has seen all headers of published - 2; whoever published that has consumed
    // everything up to published - 4, and may still read published - 3 and later.
    for (int still_read = published - 3; still_read < published; ++still_read) {
      EXPECT_NE(slot_set(Epoch(published)), slot_set(Epoch(still_read)));
    }
  }
}

TEST(Parts, CoverEveryElementOnceWithBoundariesOnUnits) {
  for (const std::size_t count : {0, 1, 15, 16, 17, 100, 1000, 4097}) {
    for (const int parts : {1, 2, 3, 7}) {
      std::size_t next = 0;
      for (int index = 0; index < parts; ++index) {
        const Part part = part_of(count, parts, index, 16);
        EXPECT_EQ(part.first, next);
        EXPECT_TRUE(part.first % 16 == 0 || part.first == count);
        next = part.first + part.count;
      }
      EXPECT_EQ(next, count);
    }
  }
}

TEST(Chunks, CoverEveryElementOnceAndAnEmptyCallTakesOne) {
  EXPECT_EQ(chunk_count(0, 8), 1u);
  EXPECT_EQ(chunk_of(0, 8, 0), (Part{0, 0}));
  for (const std::size_t count : {1, 7, 8, 9, 64, 65}) {
    std::size_t next = 0;
    for (std::size_t i = 0; i < chunk_count(count, 8); ++i) {
      const Part part = chunk_of(count, 8, i);
      EXPECT_EQ(part.first, next);
      EXPECT_GT(part.count, 0u);
      EXPECT_LE(part.count, 8u);
      next += part.count;
    }
    EXPECT_EQ(next, count);
  }
}

// Threads with a processor each split the work from 1 KiB on; all others exchange whole contributions up to 16 KiB.
TEST(ShortLimit, IsLowOnlyWhereTheDirectWayFollowsAndPays) {
  const Settings settings;
  const auto limit = [&](CollectiveKind kind, bool one_process, bool crowded) {
    return short_limit(settings.short_max_bytes, settings.short_before_direct_bytes, kind, one_process, crowded);
  };
  for (const CollectiveKind kind :
       {CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::broadcast}) {
    EXPECT_EQ(limit(kind, true, false), 1024U);
    EXPECT_EQ(limit(kind, true, true), 16384U);
    EXPECT_EQ(limit(kind, false, false), 16384U);
  }
  EXPECT_EQ(limit(CollectiveKind::all_to_all, true, false), 16384U);
}

TEST(ShortLimit, OfTheEnvironmentHoldsForAll) {
  ::setenv("BUSBW_CPU_THRESHOLD", "4096", 1);
  Settings settings = Settings::from_environment();
  EXPECT_EQ(settings.short_max_bytes, 4096U);
  EXPECT_EQ(settings.short_before_direct_bytes, 4096U);
  ::unsetenv("BUSBW_CPU_THRESHOLD");
  ::setenv("BUSBW_CPU_ALGO", "direct", 1);
  settings = Settings::from_environment();
  EXPECT_EQ(
      short_limit(settings.short_max_bytes, settings.short_before_direct_bytes, CollectiveKind::reduce, true, false),
      0U);
  ::setenv("BUSBW_CPU_ALGO", "staged", 1);
  settings = Settings::from_environment();
  EXPECT_EQ(
      short_limit(settings.short_max_bytes, settings.short_before_direct_bytes, CollectiveKind::reduce, true, false),
      16384U);
  ::unsetenv("BUSBW_CPU_ALGO");
}

}  // namespace
}  // namespace busbw::cpu

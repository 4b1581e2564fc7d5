// The scratch of a rank: every part where nothing else is, aligned, and not too much of it.
#include "library/gpu/kernels/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace busbw::gpu {
namespace {

struct Part {
  std::uint64_t begin;
  std::uint64_t end;
};

std::vector<Part> parts_of(const Layout& layout) {
  std::vector<Part> parts;
  for (int channel = 0; channel < layout.channels; ++channel) {
    for (int port = 0; port < ports; ++port) {
      for (int rank = 0; rank < layout.ranks; ++rank) {
        for (std::uint32_t epoch = 0; epoch < ll_sets; ++epoch) {
          const std::uint64_t at = layout.ll(channel, port, epoch, rank);
          parts.push_back({at, at + 16 * ll_packets});
        }
        for (std::uint32_t set = 0; set < sentinel_sets; ++set) {
          const std::uint64_t at = layout.sentinel(channel, port, set, rank);
          parts.push_back({at, at + 16 * std::uint64_t{layout.sentinel_packs}});
        }
        for (std::uint32_t step = 0; step < simple_slots; ++step) {
          const std::uint64_t at = layout.slot(channel, port, rank, step);
          parts.push_back({at, at + layout.slot_bytes});
        }
        for (const std::uint64_t at : {layout.filled(channel, port, rank), layout.read(channel, port, rank)})
          parts.push_back({at, at + 4});
      }
    }
  }
  return parts;
}

TEST(Layout, NoTwoPartsMeet) {
  for (int ranks = 2; ranks <= max_ranks; ++ranks) {
    const Layout layout = Layout::with(ranks, 3, 64, 2048);
    std::vector<Part> parts = parts_of(layout);
    std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.begin < b.begin; });
    for (std::size_t i = 1; i < parts.size(); ++i) ASSERT_LE(parts[i - 1].end, parts[i].begin);
    EXPECT_LE(parts.back().end, layout.bytes);
  }
}

TEST(Layout, DataIsAlignedForTheWidestAccess) {
  for (int ranks = 2; ranks <= max_ranks; ++ranks) {
    const Layout layout = Layout::of(ranks);
    for (const std::uint64_t at :
         {layout.ll(127, 1, 1, ranks - 1), layout.sentinel(127, 1, 2, ranks - 1), layout.slot(127, 1, ranks - 1, 7)})
      EXPECT_EQ(at % 16, 0u);
  }
}

TEST(Layout, StaysBelow256MiBForAnyNumberOfRanks) {
  for (int ranks = 2; ranks <= max_ranks; ++ranks) {
    const Layout layout = Layout::of(ranks);
    EXPECT_LT(layout.bytes, 256u << 20);
    EXPECT_GE(layout.sentinel_packs, 512u);
    EXPECT_GE(layout.slot_bytes, 4u << 10);
  }
}

TEST(Layout, StepsAndEpochsMayWrap) {
  const Layout layout = Layout::of(4);
  EXPECT_EQ(layout.slot(1, 1, 2, 0xffffffff), layout.slot(1, 1, 2, 7));
  EXPECT_NE(layout.slot(1, 1, 2, 0xffffffff), layout.slot(1, 1, 2, 0));
  EXPECT_NE(layout.ll(1, 1, 0xffffffff, 2), layout.ll(1, 1, 2, 2));
}

}  // namespace
}  // namespace busbw::gpu

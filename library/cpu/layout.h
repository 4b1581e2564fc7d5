// Where everything lies in a communicator's shared segment, and the arithmetic of epochs, slots and chunks: plain
// functions, so that they can be tested without memory or peers.
//
// Epochs. Every rank publishes one header line per epoch, for every peer, in every collective, rooted ones included,
// and waits for the header of every peer. It publishes epoch x only after it has consumed everything of epoch x - 2, so
// a rank that has seen all headers of epoch x - 2 knows that nobody reads epoch x - 4 any more. Hence four sets of
// slots suffice, and no credit, acknowledgement or barrier is needed beside the headers themselves.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace busbw::cpu {

using Epoch = std::uint32_t;

inline constexpr int slot_sets = 4;
// Two lines apart: some processors prefetch lines in pairs, which would drag a peer's line along.
inline constexpr std::size_t line_stride = 128;
inline constexpr std::size_t page = 4096;
inline constexpr int max_ranks = 1024;
inline constexpr int ring_entries = 4;

// Epochs wrap; 2^32 is a multiple of slot_sets, so the sequence of sets has no seam.
constexpr int slot_set(Epoch epoch) { return int(epoch % slot_sets); }

constexpr std::size_t round_up(std::size_t value, std::size_t unit) { return (value + unit - 1) / unit * unit; }

struct Layout {
  int ranks = 0;
  // Payload of one slot (one rank, one set).
  std::size_t slot_bytes = 0;
  // Payload of one entry of a point-to-point ring.
  std::size_t ring_bytes = 0;

  static constexpr Layout for_ranks(int ranks) {
    // 2 ranks take 4 MiB of slots and 0.5 MiB of rings; many ranks share a budget of some 64 MiB each.
    const std::size_t slots = std::size_t(ranks) * slot_sets;
    const std::size_t pairs = std::size_t(ranks) * std::size_t(ranks) * ring_entries;
    return {.ranks = ranks,
            .slot_bytes = std::clamp<std::size_t>((std::size_t{64} << 20) / slots / page * page, page, 512 << 10),
            .ring_bytes = std::clamp<std::size_t>((std::size_t{64} << 20) / pairs / 1024 * 1024, 1024, 64 << 10)};
  }

  constexpr std::size_t record_offset(int rank) const { return page + std::size_t(rank) * record_bytes; }
  // A slot is its header line and, right behind it, the payload: what a reader's prefetcher fetches next.
  constexpr std::size_t slot_offset(int rank, int set) const {
    return round_up(record_offset(ranks), page) + (std::size_t(rank) * slot_sets + std::size_t(set)) * slot_stride();
  }
  // Not a multiple of the page, so that the slots' first lines do not compete for the same cache sets.
  constexpr std::size_t slot_stride() const { return slot_bytes + line_stride; }
  // The ring that carries messages from one rank to another: a line for the receiver's count, then the entries.
  constexpr std::size_t ring_offset(int from, int to) const {
    const std::size_t index = std::size_t(from) * std::size_t(ranks) + std::size_t(to);
    return round_up(slot_offset(ranks, 0), page) + index * ring_stride();
  }
  constexpr std::size_t entry_offset(int from, int to, std::uint32_t sequence) const {
    return ring_offset(from, to) + line_stride + (sequence % ring_entries) * entry_stride();
  }
  constexpr std::size_t entry_stride() const { return line_stride + ring_bytes; }
  constexpr std::size_t ring_stride() const { return line_stride + ring_entries * entry_stride(); }
  constexpr std::size_t total_bytes() const {
    return round_up(ring_offset(ranks - 1, ranks - 1) + ring_stride(), page);
  }

  static constexpr std::size_t record_bytes = 512;
};

static_assert((std::uint64_t{1} << 32) % slot_sets == 0 && (std::uint64_t{1} << 32) % ring_entries == 0);
static_assert(Layout::for_ranks(2).total_bytes() < (8 << 20));

// One part of [0, count) for each rank, every boundary a multiple of `unit` but the last; later parts may be empty.
struct Part {
  std::size_t first = 0;
  std::size_t count = 0;
  constexpr bool operator==(const Part&) const = default;
};

constexpr Part part_of(std::size_t count, int parts, int index, std::size_t unit) {
  const std::size_t share = round_up((count + std::size_t(parts) - 1) / std::size_t(parts), unit);
  const std::size_t first = std::min(share * std::size_t(index), count);
  return {first, std::min(share, count - first)};
}

// Chunks of at most `limit` elements that cover `count`; an empty collective still takes one, to meet its peers.
constexpr std::size_t chunk_count(std::size_t count, std::size_t limit) {
  return count == 0 ? 1 : (count + limit - 1) / limit;
}

constexpr Part chunk_of(std::size_t count, std::size_t limit, std::size_t index) {
  const std::size_t first = index * limit;
  return {first, std::min(limit, count - std::min(first, count))};
}

}  // namespace busbw::cpu

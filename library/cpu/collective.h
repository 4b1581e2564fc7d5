// One collective call as data, and its compact description that ranks compare with each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "library/cpu/element.h"

namespace busbw::cpu {

enum class CollectiveKind : std::uint8_t {
  all_reduce = 1,
  all_gather,
  reduce_scatter,
  broadcast,
  reduce,
  all_to_all,
  gather,
  scatter,
  // Exchange of bytes within the library itself, when a communicator splits.
  internal,
};

struct Collective {
  CollectiveKind kind = CollectiveKind::all_reduce;
  ncclDataType_t type = ncclInt8;
  Reduction reduction = Reduction::sum;
  int root = 0;
  // Elements as the API counts them: per rank for those that gather or scatter.
  std::size_t count = 0;
  const void* send = nullptr;
  void* recv = nullptr;
  // premul_sum only: this rank's scalar in the element type.
  std::uint64_t scalar = 0;
};

constexpr bool reduces(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::reduce;
}
constexpr bool rooted(CollectiveKind kind) {
  return kind == CollectiveKind::broadcast || kind == CollectiveKind::reduce || kind == CollectiveKind::gather ||
         kind == CollectiveKind::scatter;
}
// Does the send buffer hold `count` elements for every rank, or `count` in all?
constexpr bool sends_per_rank(CollectiveKind kind) {
  return kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::all_to_all ||
         kind == CollectiveKind::scatter;
}
constexpr bool receives_per_rank(CollectiveKind kind) {
  return kind == CollectiveKind::all_gather || kind == CollectiveKind::all_to_all || kind == CollectiveKind::gather;
}

constexpr std::size_t send_elements(const Collective& call, int ranks) {
  return sends_per_rank(call.kind) ? call.count * std::size_t(ranks) : call.count;
}
constexpr std::size_t recv_elements(const Collective& call, int ranks) {
  return receives_per_rank(call.kind) ? call.count * std::size_t(ranks) : call.count;
}

inline bool contributes(const Collective& call, int rank) {
  const bool from_root = call.kind == CollectiveKind::broadcast || call.kind == CollectiveKind::scatter;
  return !from_root || call.root == rank;
}
inline bool receives(const Collective& call, int rank) {
  const bool to_root = call.kind == CollectiveKind::reduce || call.kind == CollectiveKind::gather;
  return !to_root || call.root == rank;
}

// Everything but the count in 32 bits, equal on all ranks that take part in the same call.
constexpr std::uint32_t describe(const Collective& call) {
  return std::uint32_t(call.kind) | std::uint32_t(call.type) << 4 | std::uint32_t(call.reduction) << 8 |
         std::uint32_t(call.root) << 11;
}
// The same for people: "all_reduce of 8 float, sum".
std::string spelled(std::uint32_t description, std::size_t count);

}  // namespace busbw::cpu

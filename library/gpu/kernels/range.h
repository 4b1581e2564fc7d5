// How work is cut: among channels, among ranks, into steps, among threads. Plain arithmetic, for host and device alike.
#pragma once

#include <cstdint>

#include "library/gpu/kernels/layout.h"

namespace busbw::gpu {

// Packs begin <= i < end.
struct Range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  BUSBW_BOTH constexpr std::uint64_t size() const { return end - begin; }

  // Part `index` of `parts`. Sizes differ by one at most, and none is empty if there are `parts` packs or more.
  BUSBW_BOTH constexpr Range part(std::uint64_t index, std::uint64_t parts) const {
    // A GPU divides 64-bit numbers in software, at several times the cost of 32-bit ones.
    if (size() * parts <= 0xffffffff) {
      const auto size32 = static_cast<std::uint32_t>(size());
      const auto index32 = static_cast<std::uint32_t>(index);
      const auto parts32 = static_cast<std::uint32_t>(parts);
      return {begin + size32 * index32 / parts32, begin + size32 * (index32 + 1) / parts32};
    }
    return {begin + size() * index / parts, begin + size() * (index + 1) / parts};
  }
};

BUSBW_BOTH constexpr std::uint64_t packs_of(std::uint64_t bytes, std::uint64_t pack_bytes) {
  return (bytes + pack_bytes - 1) / pack_bytes;
}

// A note of the sentinel protocol has bits for the words of so many packs of a thread.
inline constexpr std::uint64_t packs_of_a_note = 16;

// Notes that each thread of a channel may have to send to a peer; note n of thread t is LL packet t + n * threads.
BUSBW_BOTH constexpr std::uint32_t notes_of_a_thread(std::uint64_t packs, std::uint64_t threads) {
  return static_cast<std::uint32_t>(packs_of(packs, packs_of_a_note * threads));
}

// The steps in which a channel moves `packs` to a peer, when one step holds `most` packs: enough to keep all stages of
// a pipeline busy, but none much shorter than `least` packs for that. At least one, so that every channel of every rank
// takes part in every call.
BUSBW_BOTH constexpr std::uint32_t steps_of(std::uint64_t packs, std::uint64_t least, std::uint64_t most) {
  constexpr std::uint64_t good = 8;
  const std::uint64_t needed = (packs + most - 1) / most;
  const std::uint64_t affordable = packs / least;
  const std::uint64_t wanted = affordable < good ? affordable : good;
  const std::uint64_t steps = needed < wanted ? wanted : needed;
  return static_cast<std::uint32_t>(steps > 0 ? steps : 1);
}

}  // namespace busbw::gpu

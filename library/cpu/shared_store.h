// How a rank fills memory that its peers have read: through its cache, or around it, whichever is quicker now.
//
// A line that a peer has read must be taken from the peer's cache before it can be written, and stores become visible
// in order, so these trips add up. Between cores under one third-level cache a line costs 5 to 10 ns, between others 20
// to 30 (measured: bench/cpu/README.md). Stores around the cache do not wait for the trip, but the reader then fetches
// from memory, which takes longer than from a near cache. Which cores are near cannot be asked: a virtual machine does
// not tell, and its host moves it. So a rank times what it writes.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>

#include "library/cpu/copy.h"
#include "library/cpu/settings.h"

namespace busbw::cpu {

// The decision, apart from clocks and memory so that it can be tested.
class StoreChoice {
 public:
  // Fewer bytes are sooner through the cache wherever the peer is.
  static constexpr std::size_t least_bytes = 4096;

  bool around() const { return around_; }
  // Whether the next write shall be timed, through the cache.
  bool probes() { return ++writes_ % (around_ ? between_probes_around : between_probes) == 0; }
  // What `lines` cache lines took. A rank that lost its processor meanwhile looks slow: the quickest of the last ones
  // counts.
  void learn(double nanoseconds, std::size_t lines) {
    latest_[learned_++ % latest_.size()] = nanoseconds / double(lines);
    const double quickest = *std::min_element(latest_.begin(), latest_.end());
    if (learned_ >= latest_.size()) around_ = quickest > (around_ ? near_again : far);
  }

 private:
  // Nanoseconds a line. Between the two the choice stays as it is.
  static constexpr double far = 14, near_again = 11;
  static constexpr unsigned between_probes = 4, between_probes_around = 16;

  unsigned writes_ = 0;
  unsigned learned_ = 0;
  std::array<double, 3> latest_{};
  bool around_ = false;
};

class SharedStore {
 public:
  explicit SharedStore(Stores stores = Stores::automatic) : stores_(stores) {}

  void write(void* to, const void* from, std::size_t bytes) {
    if (bytes < StoreChoice::least_bytes || stores_ == Stores::cached) return copy_bytes(to, from, bytes);
    if (stores_ == Stores::streaming) return copy_bytes(to, from, bytes, true);
    if (!choice_.probes()) return copy_bytes(to, from, bytes, choice_.around());
    probe(static_cast<unsigned char*>(to), static_cast<const unsigned char*>(from), bytes);
  }

 private:
  // One page tells enough; the rest goes the way that is chosen.
  void probe(unsigned char* to, const unsigned char* from, std::size_t bytes) {
    const auto begin = std::chrono::steady_clock::now();
    copy_bytes(to, from, StoreChoice::least_bytes);
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    copy_bytes(to + StoreChoice::least_bytes, from + StoreChoice::least_bytes, bytes - StoreChoice::least_bytes,
               choice_.around());
    choice_.learn(took.count(), StoreChoice::least_bytes / 64);
  }

  Stores stores_;
  StoreChoice choice_;
};

}  // namespace busbw::cpu

// Waiting for peers: a short spin, then yielding, then sleeping; with an eye on aborts, failures and peers that ended.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>

#include "library/cpu/shared_segment.h"

namespace busbw::cpu {

inline void relax_processor() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

struct WatchOptions {
  int rank = 0;
  // Polls before the first yield: at most so many, and fewer while the scheduler keeps this rank and a peer on one
  // processor, as then the peer needs it.
  int spins = 0;
  double limit_seconds = 600;
};

class Watch {
 public:
  Watch(std::shared_ptr<SharedSegment> segment, WatchOptions options)
      : segment_(std::move(segment)), options_(options), spins_(options.spins) {}

  // Returns once done() holds. missing(rank) tells whether this wait still needs that rank; one that ended or left
  // while it is needed ends the wait with a Failure, as do an abort, a failure elsewhere and the time limit.
  template <class Done, class Missing>
  void wait(Done done, Missing missing) {
    for (int spin = 0; spin < spins_; ++spin) {
      if (done()) {
        // A peer that came while this rank polled runs on a processor of its own.
        if (spin > 0) spins_ = std::min(2 * spins_, options_.spins);
        return;
      }
      relax_processor();
    }
    spins_ = std::max(spins_ / 2, std::min(fewest_spins, options_.spins));
    Patience patience;
    while (!done()) {
      if (pause(patience)) continue;
      for (int rank = 0; rank < segment_->layout().ranks; ++rank) {
        // What it published before it ended still counts, so look again after finding it gone.
        if (missing(rank) && gone(rank) && missing(rank)) fail_gone(rank);
      }
    }
  }

  // Throws if this communicator was aborted or any rank announced a failure.
  void check() const {
    if (aborted() || segment_->header().failure.load(std::memory_order_relaxed) != 0) [[unlikely]] {
      throw_failure();
    }
  }
  // `did`: "aborted", for the sentence.
  void abort(const char* did) { aborted_.store(did); }
  bool aborted() const { return aborted_.load(std::memory_order_relaxed) != nullptr; }
  ncclResult_t failure() const;

 private:
  static constexpr int fewest_spins = 20;
  using Clock = std::chrono::steady_clock;
  struct Patience {
    int rounds = 0;
    Clock::time_point begin = Clock::now();
    Clock::time_point next_look = begin + std::chrono::milliseconds(100);
    std::chrono::microseconds nap{50};
  };

  // Gives the processor away for a while; false when it is time to look whether peers still live.
  bool pause(Patience& patience) const;
  bool gone(int rank) const;
  [[noreturn]] void fail_gone(int rank);
  [[noreturn]] void throw_failure() const;

  std::shared_ptr<SharedSegment> segment_;
  WatchOptions options_;
  int spins_;
  std::atomic<const char*> aborted_{nullptr};
};

}  // namespace busbw::cpu

// Where the GPU is, for who asks while the program calls nothing (heart.h): events without times around some
// collectives, which a later look finds passed or not. At most one pair in a quarter of a millisecond after a pause,
// and one in a millisecond among calls that follow each other.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "library/record/cuda.h"
#include "library/record/layout.h"

namespace busbw::record {

class Marks;

// A call, or those of one launch of a graph, that is marked; empty where it is not.
struct Mark {
  Marks* of = nullptr;
  std::uint64_t number = 0;
  const void* stream = nullptr;
  // After the call: whether the library gave it to the GPU.
  void end(bool worked) const;
};

// Of one rank of a communicator.
class Marks {
 public:
  // Without which is_due is false.
  bool may_be_due(std::uint64_t now_ns, std::uint64_t before_ns) const {
    const std::uint64_t since_ns = now_ns - marked_ns_.load(std::memory_order_relaxed);
    return since_ns >= interval_ns && (since_ns >= interval_of_followers_ns || now_ns - before_ns >= pause_ns);
  }
  // Whether a collective that begins now is to be marked. Ranks that call alike choose alike: after a pause each, and
  // of many calls those with round numbers. `sequence` 0: there is no number to choose by.
  bool is_due(std::uint64_t now_ns, std::uint64_t before_ns, std::uint64_t sequence) const {
    if (!may_be_due(now_ns, before_ns)) return false;
    if (now_ns - before_ns >= pause_ns) return true;
    const std::uint64_t since = std::min(sequence - marked_.load(std::memory_order_relaxed), most_between);
    return (sequence & (std::bit_floor(since) - 1)) == 0;
  }

  // Before collectives `first` to `last` in this stream, which is not being captured.
  Mark begin(const void* stream, std::uint64_t first, std::uint64_t last, std::uint64_t now_ns);

  // What the GPU has passed; false where all that was marked has ended. By one thread.
  bool look(Pulse& pulse);

 private:
  friend struct Mark;
  static constexpr std::uint64_t interval_ns = 250'000, interval_of_followers_ns = 1'000'000;
  // So long without a call the host did something else, or waited: what it waited for may be what hangs next.
  static constexpr std::uint64_t pause_ns = 60'000;
  static constexpr std::uint64_t most_between = 4096;
  static constexpr std::size_t room = 64;
  enum State : std::uint8_t { being_made, begun, whole, refused };
  struct Slot {
    CudaEvent begin = nullptr, end = nullptr;
    std::uint64_t number = 0, first = 0, last = 0;
    std::uint16_t stream = 0;
    std::atomic<State> state{being_made};
  };

  Slot* next_slot(CudaContext here);
  bool has_events(Slot& slot);
  void end(const Mark& mark, bool worked);
  void take_back();
  bool is_passed(CudaEvent event);

  std::atomic<std::uint64_t> marked_ns_{0}, marked_{0};
  std::mutex guard_;
  CudaContext context_ = nullptr;
  std::array<Slot, room> slots_;
  // Pairs that no mark waits for: one is made where there is none.
  std::vector<std::pair<CudaEvent, CudaEvent>> free_;
  // Numbers of the next mark and of the oldest that the GPU may not have passed; what older ones have told.
  std::uint64_t next_ = 0, oldest_ = 0, begun_ = 0, ended_ = 0;
  int error_ = 0;
};

inline void Mark::end(bool worked) const {
  if (of) of->end(*this, worked);
}

// Null where nothing may be asked of the GPU: without a driver, or where BUSBW_RECORD_MARKS=0. Never freed.
Marks* new_marks();

}  // namespace busbw::record

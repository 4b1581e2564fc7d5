// Calls that found their place in the ring still taken: by a call a whole ring before them, which had not ended.
//
// A place goes from call to call: who ends lets the next one in, so two threads never write there, and the way of
// nearly all calls is a look at two words. Who comes too early has no place and says so here; so the one after it knows
// whom it follows.
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "library/record/layout.h"

namespace busbw::record {

// Numbers are those of calls from 0 on, as their places follow from them.
class Overtaken {
 public:
  // Whether `call`, a place of a ring of `ring` calls, is free for `number`, though the call a ring before is not
  // there or has not ended. Where it is not, `number` has given way for good.
  bool may_take(const Call& call, std::uint64_t number, std::uint64_t ring);

 private:
  // Calls of one place, each a ring after the one before.
  struct Run {
    std::uint64_t first, last;
  };
  static void give_way(std::vector<Run>& runs, std::uint64_t number, std::uint64_t ring);

  std::mutex guard_;
  std::unordered_map<std::uint64_t, std::vector<Run>> gave_way_;
};

// Whether this call has ended: its place may be written.
inline bool has_ended(const Call& call, std::uint64_t number) {
  return call.stamp.load(std::memory_order_acquire) == std::uint32_t(number + 1) &&
         call.how.load(std::memory_order_acquire) >> how_duration_at != 0;
}

}  // namespace busbw::record

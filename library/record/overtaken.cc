// Who gave way at which place of the ring: a few runs of calls for each thread that was ever a ring behind.
#include "library/record/overtaken.h"

#include <algorithm>

#include "library/record/cut_off.h"

namespace busbw::record {

bool Overtaken::may_take(const Call& call, std::uint64_t number, std::uint64_t ring) {
  // Nobody reads it any more, and the stamps are gone.
  if (was_cut_off()) return true;
  const std::lock_guard lock(guard_);
  std::vector<Run>& runs = gave_way_[number % ring];
  std::uint64_t before = number - ring;
  const auto run =
      std::find_if(runs.begin(), runs.end(), [&](const Run& one) { return one.first <= before && before <= one.last; });
  // No call of the first round gives way.
  if (run != runs.end()) before = run->first - ring;
  if (!has_ended(call, before)) {
    give_way(runs, number, ring);
    return false;
  }
  if (run != runs.end()) runs.erase(run);
  if (runs.empty()) gave_way_.erase(number % ring);
  return true;
}

void Overtaken::give_way(std::vector<Run>& runs, std::uint64_t number, std::uint64_t ring) {
  Run whole{number, number};
  const auto joins = [&](const Run& one) {
    if (one.last + ring == whole.first)
      whole.first = one.first;
    else if (whole.last + ring == one.first)
      whole.last = one.last;
    else
      return false;
    return true;
  };
  for (auto one = std::find_if(runs.begin(), runs.end(), joins); one != runs.end();
       one = std::find_if(runs.begin(), runs.end(), joins))
    runs.erase(one);
  runs.push_back(whole);
}

}  // namespace busbw::record

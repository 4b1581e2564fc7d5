// Where the time of a run goes: what has passed since the last lap, under names in the order of their first use.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/units.h"

namespace busbw {

class Laps {
 public:
  void end(const std::string& name) {
    const auto now = std::chrono::steady_clock::now();
    const Seconds passed = now - std::exchange(last_, now);
    const auto found = std::find_if(laps_.begin(), laps_.end(), [&](const auto& lap) { return lap.first == name; });
    if (found == laps_.end())
      laps_.emplace_back(name, passed);
    else
      found->second += passed;
  }
  const std::vector<std::pair<std::string, Seconds>>& list() const { return laps_; }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  std::vector<std::pair<std::string, Seconds>> laps_;
};

}  // namespace busbw

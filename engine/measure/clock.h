// The clock that times operations, as an argument, so that tests can measure with one that they set.
#pragma once

#include <chrono>

#include "engine/core/units.h"

namespace busbw {

class Clock {
 public:
  virtual ~Clock() = default;
  // Since any fixed moment; never goes back.
  virtual Seconds now() = 0;
};

class SteadyClock final : public Clock {
 public:
  Seconds now() override { return std::chrono::steady_clock::now().time_since_epoch(); }
};

}  // namespace busbw

// What a stress run tells: how far it is, and what it came to, on the terminal and in a file.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

#include "engine/core/units.h"
#include "engine/rendezvous/rendezvous.h"
#include "library/tests/gpu/stress/draw.h"
#include "library/tests/gpu/stress/options.h"

namespace busbw::stress {

using Clock = std::chrono::steady_clock;

class Account {
 public:
  explicit Account(const Options& options) : options_(options) {}

  void begin() { began_ = Clock::now(); }
  double seconds() const { return Seconds(Clock::now() - began_).count(); }
  void renewed() { ++renewed_; }
  void count(const Batch& batch, std::uint64_t drawn, const Limits& limits, bool tells);
  void summarise(const Failure* failure, int ranks, const std::string& library) const;

 private:
  const Options& options_;
  Clock::time_point began_ = Clock::now();
  double told_ = 0;
  int renewed_ = 0;
  std::uint64_t drawn_ = 0;
  std::uint64_t by_manner_[4] = {};
  std::map<std::string, std::uint64_t> by_collective_;
};

}  // namespace busbw::stress

// Calls that take time, of libraries for tests that have nothing to do.
#pragma once

#include <time.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

namespace busbw::record {

// What this variable holds, as numbers with commas between them; 0 for those that it has not.
template <std::size_t size>
std::array<std::uint64_t, size> numbers(const char* variable) {
  std::array<std::uint64_t, size> all{};
  const char* word = std::getenv(variable);
  for (std::uint64_t& one : all) {
    if (!word || !*word) break;
    char* end = nullptr;
    one = std::strtoull(word, &end, 10);
    word = *end == ',' ? end + 1 : nullptr;
  }
  return all;
}

[[gnu::noipa]] inline void turns(std::uint64_t number) {
  for (std::uint64_t i = 0; i < number; ++i) asm volatile("" ::: "memory");
}

// Work of about so long, by turns of a loop: what takes the processor away meanwhile does not shorten it.
inline void take(std::uint64_t ns) {
  if (ns == 0) return;
  static const double turns_of_ns = [] {
    constexpr std::uint64_t number = 2'000, rounds = 20'001;
    std::vector<double> took(rounds);
    for (double& one : took) {
      timespec from{}, to{};
      clock_gettime(CLOCK_MONOTONIC, &from);
      turns(number);
      clock_gettime(CLOCK_MONOTONIC, &to);
      one = double(to.tv_sec - from.tv_sec) * 1e9 + double(to.tv_nsec - from.tv_nsec);
    }
    std::sort(took.begin(), took.end());
    return double(number) / took[rounds / 8];
  }();
  turns(std::uint64_t(double(ns) * turns_of_ns));
}

}  // namespace busbw::record

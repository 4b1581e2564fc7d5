// Units that live in types: sizes in bytes and durations in seconds, and the bandwidths that follow from them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace busbw {

using Seconds = std::chrono::duration<double>;

struct Bytes {
  std::size_t count = 0;
  friend auto operator<=>(const Bytes&, const Bytes&) = default;
};

inline double microseconds(Seconds elapsed) { return elapsed.count() * 1e6; }

// 1e9 bytes per second, as every collective benchmark quotes it. An immeasurably short time gives 0, not infinity.
inline double gigabytes_per_second(double bytes, Seconds elapsed) {
  return elapsed.count() > 0 ? bytes / elapsed.count() / 1e9 : 0.0;
}

}  // namespace busbw

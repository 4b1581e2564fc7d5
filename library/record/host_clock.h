// The host's monotonic clock for each call: by the processor's own counter, set by the kernel's clock every hundredth
// of a second. Where the kernel does not trust that counter, and on other processors, it is the kernel's clock.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace busbw::record {

// As CLOCK_MONOTONIC.
std::uint64_t kernel_ns();

class HostClock {
 public:
  // Of one thread; never goes back.
  std::uint64_t now() {
#if defined(__x86_64__)
    const std::uint64_t since = __rdtsc() - stamp_;
    if (since < valid_) {
      const std::uint64_t now = ns_ + (since * scale_ >> scale_bits);
      return last_ = now > last_ ? now : last_;
    }
#endif
    return set();
  }

 private:
  static constexpr int scale_bits = 32;
  std::uint64_t set();

  // The kernel's clock was `ns_` at `stamp_`. Up to so many counts after it a count is `scale_`/2^32 ns.
  std::uint64_t stamp_ = 0;
  std::uint64_t ns_ = 0;
  std::uint64_t scale_ = 0;
  std::uint64_t valid_ = 0;
  std::uint64_t last_ = 0;
};

}  // namespace busbw::record

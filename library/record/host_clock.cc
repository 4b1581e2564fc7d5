// Setting the clock of a thread.
#include "library/record/host_clock.h"

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace busbw::record {

std::uint64_t kernel_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::uint64_t(now.tv_sec) * 1'000'000'000 + std::uint64_t(now.tv_nsec);
}

#if defined(__x86_64__)

namespace {

constexpr std::uint64_t ms = 1'000'000;
// From one setting to the next at least, and what a rate is learned from.
constexpr std::uint64_t kept_ns = 10 * ms;
constexpr std::uint64_t longest_ns = 1000 * kept_ns;
// Counts between two readings around the kernel's clock: a microsecond or less.
constexpr std::uint64_t most_read = 2000;
// A processor that was moved to other hardware, or slept, counts otherwise: one part in so many is believed.
constexpr std::uint64_t believed = 5000;

// The counter runs at one rate, and the kernel goes by it: else it may differ between processors.
bool is_steady() {
  static const bool steady = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (!__get_cpuid(0x80000007, &a, &b, &c, &d) || !(d & 1u << 8)) return false;
    char name[64] = {};
    if (std::FILE* file = std::fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "re")) {
      if (!std::fgets(name, sizeof name, file)) name[0] = '\0';
      std::fclose(file);
    }
    name[std::strcspn(name, "\n")] = '\0';
    for (const char* known : {"tsc", "kvm-clock", "hyperv_clocksource_tsc_page"})
      if (std::strcmp(name, known) == 0) return true;
    return false;
  }();
  return steady;
}

}  // namespace

std::uint64_t HostClock::set() {
  if (!is_steady()) return last_ = std::max(last_, kernel_ns());
  std::uint64_t stamp = 0, now = 0, took = 0;
  // Whoever takes the processor between the two readings makes them useless: then again.
  for (int turn = 0; turn < 3; ++turn) {
    const std::uint64_t before = __rdtsc();
    now = kernel_ns();
    took = __rdtsc() - before;
    stamp = before + took / 2;
    if (took <= most_read || (ns_ != 0 && now - ns_ < kept_ns)) break;
  }
  const std::uint64_t passed_ns = now - ns_;
  if (ns_ == 0 || passed_ns > longest_ns || stamp <= stamp_) {
    valid_ = 0;
  } else if (passed_ns < kept_ns) {
    // Too short to learn from.
    return last_ = std::max(last_, now);
  } else {
    const auto scale = std::uint64_t((static_cast<unsigned __int128>(passed_ns) << scale_bits) / (stamp - stamp_));
    const std::uint64_t off = scale > scale_ ? scale - scale_ : scale_ - scale;
    // 0.01 to 100 GHz; two rates that follow each other have to agree.
    const bool sane = scale > (1ull << scale_bits) / 100 && scale < 100ull << scale_bits && off < scale / believed;
    scale_ = scale;
    valid_ = sane ? kept_ns * (stamp - stamp_) / passed_ns : 0;
  }
  if (took > most_read) valid_ = 0;
  stamp_ = stamp;
  ns_ = now;
  return last_ = std::max(last_, now);
}

#else

std::uint64_t HostClock::set() { return last_ = std::max(last_, kernel_ns()); }

#endif

}  // namespace busbw::record

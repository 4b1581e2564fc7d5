// Filling and checking buffers in host memory.
#include "engine/platform/host_pattern.h"

#include <cstring>

namespace busbw {
namespace {

#ifdef __x86_64__
const bool has_avx2 = __builtin_cpu_supports("avx2");
#endif

void fill_segment(void* memory, const Pattern& p, const Segment& segment) {
#ifdef __x86_64__
  if (has_avx2) return fill_segment_avx2(memory, p, segment);
#endif
  fill_segment_baseline(memory, p, segment);
}

template <typename Bits>
std::uint64_t count_far(const void* data, const void* expected, std::size_t count, Bits tolerance) {
  const Bits* a = static_cast<const Bits*>(data);
  const Bits* b = static_cast<const Bits*>(expected);
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Bits distance = a[i] > b[i] ? static_cast<Bits>(a[i] - b[i]) : static_cast<Bits>(b[i] - a[i]);
    wrong += distance > tolerance ? 1 : 0;
  }
  return wrong;
}

}  // namespace

void fill_on_host(void* memory, const Pattern& pattern, std::span<const Segment> segments) {
  for (const Segment& segment : segments) fill_segment(memory, pattern, segment);
}

std::uint64_t count_wrong_on_host(const void* data, const void* expected, std::size_t count, const Pattern& pattern) {
  const int tolerance = tolerance_units(pattern);
  const std::size_t width = element_size(pattern.type);
  // The right result is the rule: the C library compares faster than any loop that counts.
  if (tolerance == 0 && std::memcmp(data, expected, count * width) == 0) return 0;
  switch (width) {
    case 1:
      return count_far<std::uint8_t>(data, expected, count, static_cast<std::uint8_t>(tolerance));
    case 2:
      return count_far<std::uint16_t>(data, expected, count, static_cast<std::uint16_t>(tolerance));
    case 4:
      return count_far<std::uint32_t>(data, expected, count, static_cast<std::uint32_t>(tolerance));
    default:
      return count_far<std::uint64_t>(data, expected, count, static_cast<std::uint64_t>(tolerance));
  }
}

}  // namespace busbw

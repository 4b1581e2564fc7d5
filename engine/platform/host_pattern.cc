// Filling and checking buffers in host memory, one instantiation per element type so that the loops vectorise.
#include "engine/platform/host_pattern.h"

#include <algorithm>
#include <cstring>

namespace busbw {
namespace {

using pattern_detail::element_hash;
using pattern_detail::window_hash;

// Elements worked on at once: their hashes and sums stay in the first-level cache.
constexpr std::size_t block_elements = 512;

// One stretch whose source indices share their upper 32 bits.
template <DataType Type, PatternKind Kind>
[[gnu::always_inline]] inline void fill_block(typename pattern_detail::Format<Type>::Bits* out, std::size_t count,
                                              const Pattern& p, const Segment& segment, std::uint64_t first_index) {
  const std::uint32_t window = window_hash(p, first_index);
  const auto low = static_cast<std::uint32_t>(first_index);
  const auto n = static_cast<std::uint32_t>(count);
  using Reduction = pattern_detail::Reduction<Type, Kind>;
  constexpr bool is_plain = pattern_detail::Format<Type>::is_integer || Kind == PatternKind::copy;
  if (is_plain && segment.source == Segment::Source::contribution) {
    for (std::uint32_t i = 0; i < n; ++i) {
      const std::uint32_t element = element_hash(window, low + i);
      out[i] = Reduction::encode(Reduction::input(p, element, segment.rank), element);
    }
    return;
  }
  // Loops that do one thing each: GCC 12 vectorises these, and not one loop that does all of it.
  std::uint32_t elements[block_elements];
  typename Reduction::State states[block_elements];
  for (std::uint32_t i = 0; i < n; ++i) elements[i] = element_hash(window, low + i);
  if (segment.source == Segment::Source::contribution) {
    for (std::uint32_t i = 0; i < n; ++i) states[i] = Reduction::input(p, elements[i], segment.rank);
    for (std::uint32_t i = 0; i < n; ++i) out[i] = Reduction::encode(states[i], elements[i]);
    return;
  }
  for (std::uint32_t i = 0; i < n; ++i) states[i] = Reduction::weighted(Reduction::input(p, elements[i], 0), 0);
  for (int rank = 1; rank < p.ranks; ++rank)
    for (std::uint32_t i = 0; i < n; ++i)
      states[i] = Reduction::add(states[i], Reduction::weighted(Reduction::input(p, elements[i], rank), rank));
  for (std::uint32_t i = 0; i < n; ++i) out[i] = Reduction::finish(p, states[i], elements[i]);
}

template <DataType Type, PatternKind Kind>
[[gnu::always_inline]] inline void fill_loop(void* memory, Pattern p, const Segment& segment) {
  p.kind = Kind;
  auto* out = static_cast<typename pattern_detail::Format<Type>::Bits*>(memory) + segment.offset;
  for (std::size_t done = 0; done < segment.count;) {
    const std::uint64_t index = segment.source_offset + done;
    const std::uint64_t to_window_end = (std::uint64_t(1) << 32) - (index & 0xffffffffU);
    const std::size_t count = std::min<std::uint64_t>({block_elements, segment.count - done, to_window_end});
    fill_block<Type, Kind>(out + done, count, p, segment, index);
    done += count;
  }
}

// Everything is inlined into the function for the wider instructions, so that no copy of an inline function compiled
// for them can be chosen by the linker for machines that lack them.
#ifdef __x86_64__
template <DataType Type, PatternKind Kind>
[[gnu::target("avx2"), gnu::flatten]] void fill_segment_avx2(void* memory, const Pattern& p, const Segment& segment) {
  fill_loop<Type, Kind>(memory, p, segment);
}
const bool has_avx2 = __builtin_cpu_supports("avx2");
#endif

template <DataType Type, PatternKind Kind>
[[gnu::flatten]] void fill_segment(void* memory, const Pattern& p, const Segment& segment) {
#ifdef __x86_64__
  if (has_avx2) return fill_segment_avx2<Type, Kind>(memory, p, segment);
#endif
  fill_loop<Type, Kind>(memory, p, segment);
}

template <DataType Type>
void fill_kind(void* memory, const Pattern& p, const Segment& segment) {
  with_kind(p.kind, [&](auto kind) { fill_segment<Type, decltype(kind)::value>(memory, p, segment); });
}

void fill_type(void* memory, const Pattern& p, const Segment& segment) {
  switch (p.type) {
    case DataType::int8:
      return fill_kind<DataType::int8>(memory, p, segment);
    case DataType::uint8:
      return fill_kind<DataType::uint8>(memory, p, segment);
    case DataType::int32:
      return fill_kind<DataType::int32>(memory, p, segment);
    case DataType::uint32:
      return fill_kind<DataType::uint32>(memory, p, segment);
    case DataType::int64:
      return fill_kind<DataType::int64>(memory, p, segment);
    case DataType::uint64:
      return fill_kind<DataType::uint64>(memory, p, segment);
    case DataType::float16:
      return fill_kind<DataType::float16>(memory, p, segment);
    case DataType::float32:
      return fill_kind<DataType::float32>(memory, p, segment);
    case DataType::float64:
      return fill_kind<DataType::float64>(memory, p, segment);
    case DataType::bfloat16:
      return fill_kind<DataType::bfloat16>(memory, p, segment);
    case DataType::f8e4m3:
      return fill_kind<DataType::f8e4m3>(memory, p, segment);
    case DataType::f8e5m2:
      return fill_kind<DataType::f8e5m2>(memory, p, segment);
  }
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
  for (const Segment& segment : segments) fill_type(memory, pattern, segment);
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

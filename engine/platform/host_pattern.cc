// Filling and checking buffers in host memory, one instantiation per element type so that the loops vectorise.
#include "engine/platform/host_pattern.h"

#include <cstring>

namespace busbw {
namespace {

// The kind and the number of ranks are loop invariants that the compiler can only hoist when it sees them as constants.
template <DataType Type, PatternKind Kind>
void fill_segment(void* memory, Pattern pattern, const Segment& segment) {
  using Bits = typename pattern_detail::Format<Type>::Bits;
  pattern.kind = Kind;
  Bits* out = static_cast<Bits*>(memory) + segment.offset;
  if (segment.source == Segment::Source::contribution) {
    for (std::size_t i = 0; i < segment.count; ++i)
      out[i] = contribution<Type>(pattern, segment.rank, segment.source_offset + i);
  } else if (pattern.ranks == 2) {
    pattern.ranks = 2;
    for (std::size_t i = 0; i < segment.count; ++i) out[i] = reduction<Type>(pattern, segment.source_offset + i);
  } else {
    for (std::size_t i = 0; i < segment.count; ++i) out[i] = reduction<Type>(pattern, segment.source_offset + i);
  }
}

template <DataType Type>
void fill_kind(void* memory, const Pattern& p, const Segment& segment) {
  switch (p.kind) {
    case PatternKind::copy:
      return fill_segment<Type, PatternKind::copy>(memory, p, segment);
    case PatternKind::sum:
      return fill_segment<Type, PatternKind::sum>(memory, p, segment);
    case PatternKind::prod:
      return fill_segment<Type, PatternKind::prod>(memory, p, segment);
    case PatternKind::max:
      return fill_segment<Type, PatternKind::max>(memory, p, segment);
    case PatternKind::min:
      return fill_segment<Type, PatternKind::min>(memory, p, segment);
    case PatternKind::avg:
      return fill_segment<Type, PatternKind::avg>(memory, p, segment);
    case PatternKind::mulsum:
      return fill_segment<Type, PatternKind::mulsum>(memory, p, segment);
  }
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

// Filling and checking buffers in host memory.
#pragma once

#include <cstdint>
#include <span>

#include "engine/core/pattern.h"

namespace busbw {

// Writes the segments' elements into `memory`, which holds elements of pattern.type.
void fill_on_host(void* memory, const Pattern& pattern, std::span<const Segment> segments);

// One segment, with the instructions that every processor has, or with AVX2 where this one has it.
void fill_segment_baseline(void* memory, const Pattern& pattern, const Segment& segment);
void fill_segment_avx2(void* memory, const Pattern& pattern, const Segment& segment);

// Elements whose bits are further than tolerance_units(pattern) from those expected.
std::uint64_t count_wrong_on_host(const void* data, const void* expected, std::size_t count, const Pattern& pattern);

}  // namespace busbw

// What the host hands to the pattern kernels; read by the CUDA compiler and by the host compiler alike.
#pragma once

#include <cstdint>

namespace busbw {

// A stretch of a buffer whose source indices share their upper 32 bits, so that the kernel counts in 32 bits only.
struct FillStretch {
  std::uint64_t address = 0;      // of the first element
  std::uint64_t count = 0;        // elements, at most 2^32
  std::uint64_t first_index = 0;  // in the contribution or reduction
  std::int32_t rank = 0;          // whose contribution; -1 for the reduction
  std::int32_t unused = 0;
};

// One block row each. Kernel parameters end at 4 KiB.
inline constexpr int stretches_per_launch = 64;

struct FillArguments {
  std::int32_t kind = 0;  // PatternKind
  std::int32_t ranks = 1;
  std::uint32_t seed = 0;
  std::int32_t stretches = 0;
  FillStretch stretch[stretches_per_launch];
};

struct CountArguments {
  std::uint64_t data = 0;
  std::uint64_t expected = 0;
  std::uint64_t count = 0;
  std::uint64_t tolerance = 0;
  std::uint64_t counter = 0;  // address of 64 zeroed bits
};

// out = left * right, all float32 and by rows.
struct ProductArguments {
  std::uint64_t left = 0, right = 0, out = 0;  // addresses
  std::int32_t rows = 0, columns = 0, inner = 0;
  std::int32_t unused = 0;
};

// A block's part of the result, how deep it goes at once, and its threads, each with 4 x 4 elements.
inline constexpr int product_tile = 64, product_depth = 16, product_threads = 256;

}  // namespace busbw

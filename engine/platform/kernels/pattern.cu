// Filling and checking on the GPU, from the same functions as on the host. Entry points have C names, one per element
// type, as data_type.h names it.
#include "engine/core/pattern.h"
#include "engine/platform/kernels/kernel_arguments.h"

namespace busbw {
namespace {

constexpr unsigned vector_bytes = 16;

__device__ inline std::uint64_t first_item() { return std::uint64_t(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ inline std::uint64_t item_stride() { return std::uint64_t(gridDim.x) * blockDim.x; }

// Elements before the first 16-byte boundary.
template <typename Bits>
__device__ inline std::uint64_t elements_to_boundary(std::uint64_t address, std::uint64_t count) {
  const std::uint64_t head = ((vector_bytes - (address & (vector_bytes - 1))) & (vector_bytes - 1)) / sizeof(Bits);
  return head < count ? head : count;
}

// 64 bits of neighbouring elements. Packing by shifts keeps the vector in registers, whatever the loop is unrolled to.
template <typename Bits, int Unroll, typename Value>
__device__ inline std::uint64_t pack(const Value& value, std::uint32_t first) {
  constexpr int elements = 8 / sizeof(Bits);
  std::uint64_t packed = 0;
#pragma unroll Unroll
  for (int j = 0; j < elements; ++j)
    packed |= static_cast<std::uint64_t>(value(first + j)) << (8 * sizeof(Bits) * j % 64);
  return packed;
}

// A value with a loop over ranks inside is not unrolled: eight copies of that loop cost build time and give no speed.
template <typename Bits, int Unroll, typename Value>
__device__ inline void store_all(const FillStretch& stretch, const Value& value) {
  Bits* out = reinterpret_cast<Bits*>(stretch.address);
  constexpr std::uint32_t per_vector = vector_bytes / sizeof(Bits);
  const std::uint64_t head = elements_to_boundary<Bits>(stretch.address, stretch.count);
  const std::uint64_t vectors = (stretch.count - head) / per_vector;
  const std::uint32_t low = static_cast<std::uint32_t>(stretch.first_index);
  auto* vector_out = reinterpret_cast<ulonglong2*>(out + head);
#pragma unroll 1
  for (std::uint64_t v = first_item(); v < vectors; v += item_stride()) {
    const std::uint32_t first = low + static_cast<std::uint32_t>(head + v * per_vector);
    vector_out[v] =
        make_ulonglong2(pack<Bits, Unroll>(value, first), pack<Bits, Unroll>(value, first + per_vector / 2));
  }
  const std::uint64_t tail = head + vectors * per_vector;
#pragma unroll 1
  for (std::uint64_t i = first_item(); i < stretch.count - vectors * per_vector; i += item_stride()) {
    const std::uint64_t at = i < head ? i : tail + (i - head);
    out[at] = value(low + static_cast<std::uint32_t>(at));
  }
}

// The kind is a template argument so that every branch on it is gone from the loops.
template <DataType Type, PatternKind Kind>
__device__ inline void fill_stretch(const FillArguments& arguments, const FillStretch& stretch) {
  using Bits = typename pattern_detail::Format<Type>::Bits;
  const Pattern p{Type, Kind, arguments.ranks, arguments.seed};
  const std::uint32_t window = pattern_detail::window_hash(p, stretch.first_index);
  if (stretch.rank >= 0) {
    store_all<Bits, 8>(stretch, [&](std::uint32_t low) {
      return pattern_detail::contribution_of<Type, Kind>(p, stretch.rank, pattern_detail::element_hash(window, low));
    });
  } else {
    store_all<Bits, 1>(stretch, [&](std::uint32_t low) {
      return pattern_detail::reduction_of<Type, Kind>(p, pattern_detail::element_hash(window, low));
    });
  }
}

template <DataType Type>
__device__ inline void fill(const FillArguments& arguments) {
  const FillStretch& stretch = arguments.stretch[blockIdx.y];
  switch (static_cast<PatternKind>(arguments.kind)) {
    case PatternKind::copy:
      return fill_stretch<Type, PatternKind::copy>(arguments, stretch);
    case PatternKind::sum:
      return fill_stretch<Type, PatternKind::sum>(arguments, stretch);
    case PatternKind::prod:
      return fill_stretch<Type, PatternKind::prod>(arguments, stretch);
    case PatternKind::max:
      return fill_stretch<Type, PatternKind::max>(arguments, stretch);
    case PatternKind::min:
      return fill_stretch<Type, PatternKind::min>(arguments, stretch);
    case PatternKind::avg:
      return fill_stretch<Type, PatternKind::avg>(arguments, stretch);
    case PatternKind::mulsum:
      return fill_stretch<Type, PatternKind::mulsum>(arguments, stretch);
  }
}

template <typename Bits>
__device__ inline unsigned is_far(Bits a, Bits b, Bits tolerance) {
  return static_cast<Bits>(a > b ? a - b : b - a) > tolerance ? 1U : 0U;
}

template <typename Bits>
__device__ inline unsigned count_far(std::uint64_t a, std::uint64_t b, Bits tolerance) {
  unsigned wrong = 0;
#pragma unroll
  for (unsigned shift = 0; shift < 64; shift += 8 * sizeof(Bits))
    wrong += is_far(static_cast<Bits>(a >> shift), static_cast<Bits>(b >> shift), tolerance);
  return wrong;
}

__device__ inline void add_block_total(unsigned long long wrong, std::uint64_t counter) {
  for (int lane = 16; lane > 0; lane /= 2) wrong += __shfl_down_sync(0xffffffffU, wrong, lane);
  if (threadIdx.x % 32 == 0 && wrong != 0) atomicAdd(reinterpret_cast<unsigned long long*>(counter), wrong);
}

template <typename Bits>
__device__ inline void count_wrong(const CountArguments& arguments) {
  constexpr std::uint64_t per_vector = vector_bytes / sizeof(Bits);
  const auto* data = reinterpret_cast<const Bits*>(arguments.data);
  const auto* expected = reinterpret_cast<const Bits*>(arguments.expected);
  const Bits tolerance = static_cast<Bits>(arguments.tolerance);
  // Vectors need both sides on a boundary at once; -u can shift one against the other.
  const bool together = (arguments.data - arguments.expected) % vector_bytes == 0;
  const std::uint64_t head = elements_to_boundary<Bits>(arguments.data, arguments.count);
  const std::uint64_t vectors = together ? (arguments.count - head) / per_vector : 0;
  const auto* vector_data = reinterpret_cast<const ulonglong2*>(data + head);
  const auto* vector_expected = reinterpret_cast<const ulonglong2*>(expected + head);
  unsigned long long wrong = 0;
#pragma unroll 2
  for (std::uint64_t v = first_item(); v < vectors; v += item_stride()) {
    const ulonglong2 a = vector_data[v];
    const ulonglong2 b = vector_expected[v];
    if (a.x != b.x || a.y != b.y) wrong += count_far<Bits>(a.x, b.x, tolerance) + count_far<Bits>(a.y, b.y, tolerance);
  }
  const std::uint64_t tail = head + vectors * per_vector;
#pragma unroll 1
  for (std::uint64_t i = first_item(); i < arguments.count - vectors * per_vector; i += item_stride()) {
    const std::uint64_t at = i < head ? i : tail + (i - head);
    wrong += is_far(data[at], expected[at], tolerance);
  }
  add_block_total(wrong, arguments.counter);
}

}  // namespace
}  // namespace busbw

// The product of --beside: tiles through shared memory, with fused multiplications and additions of float32.
extern "C" __global__ void __launch_bounds__(busbw::product_threads)
    busbw_product(const __grid_constant__ busbw::ProductArguments given) {
  constexpr int tile = busbw::product_tile, depth = busbw::product_depth, threads = busbw::product_threads;
  __shared__ float left[depth][tile + 4];
  __shared__ float right[depth][tile];
  const auto* a = reinterpret_cast<const float*>(given.left);
  const auto* b = reinterpret_cast<const float*>(given.right);
  auto* out = reinterpret_cast<float*>(given.out);
  const int first_row = int(blockIdx.y) * tile, first_column = int(blockIdx.x) * tile;
  const int x = int(threadIdx.x) % 16, y = int(threadIdx.x) / 16;
  float sums[4][4] = {};
  for (int first = 0; first < given.inner; first += depth) {
#pragma unroll
    for (int i = 0; i < tile * depth / threads; ++i) {
      const int at = int(threadIdx.x) + i * threads;
      const int row = first_row + at / depth, column = first_column + at % tile;
      const int along = first + at % depth, down = first + at / tile;
      left[at % depth][at / depth] =
          row < given.rows && along < given.inner ? a[std::size_t(row) * given.inner + along] : 0.0F;
      right[at / tile][at % tile] =
          down < given.inner && column < given.columns ? b[std::size_t(down) * given.columns + column] : 0.0F;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < depth; ++k) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) sums[i][j] = fmaf(left[k][4 * y + i], right[k][4 * x + j], sums[i][j]);
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) {
      const int row = first_row + 4 * y + i, column = first_column + 4 * x + j;
      if (row < given.rows && column < given.columns) out[std::size_t(row) * given.columns + column] = sums[i][j];
    }
  }
}

#define BUSBW_FILL(name, type)                                                                           \
  extern "C" __global__ void busbw_fill_##name(const __grid_constant__ busbw::FillArguments arguments) { \
    busbw::fill<busbw::DataType::type>(arguments);                                                       \
  }
BUSBW_FILL(int8, int8)
BUSBW_FILL(uint8, uint8)
BUSBW_FILL(int32, int32)
BUSBW_FILL(uint32, uint32)
BUSBW_FILL(int64, int64)
BUSBW_FILL(uint64, uint64)
BUSBW_FILL(half, float16)
BUSBW_FILL(float, float32)
BUSBW_FILL(double, float64)
BUSBW_FILL(bfloat16, bfloat16)
BUSBW_FILL(f8e4m3, f8e4m3)
BUSBW_FILL(f8e5m2, f8e5m2)

#define BUSBW_COUNT(width, bits)                                                                                  \
  extern "C" __global__ void busbw_count_wrong_##width(const __grid_constant__ busbw::CountArguments arguments) { \
    busbw::count_wrong<bits>(arguments);                                                                          \
  }
BUSBW_COUNT(1, std::uint8_t)
BUSBW_COUNT(2, std::uint16_t)
BUSBW_COUNT(4, std::uint32_t)
BUSBW_COUNT(8, std::uint64_t)

// All-reduce, residual and RMSNorm of rows in one kernel, as tensor-parallel inference needs them twice a layer:
//
//     sum = the inputs of all ranks, added in their order, in fp32, rounded to the type
//     x = sum + residual, in fp32, rounded to the type                                   residual_out
//     y = x * (1 / sqrt(mean(x^2) + epsilon)) * weight, in fp32, rounded once                  output
//
// A channel has whole rows, so that a block normalises what it has added itself and no barrier of the grid is needed.
// The sum lies in the output meanwhile. It is rounded before the residual is added, as it is where an all-reduce of its
// own gives it to whoever normalises: all algorithms, and NCCL behind a norm of ours, give the same bits.
#pragma once

#include "library/gpu/kernels/sentinel.h"

#ifndef __CUDACC__
#include <cmath>
#endif

namespace busbw::gpu {

// Packs of a row that a thread keeps in registers.
inline constexpr int most_packs_of_a_norm = 8;

BUSBW_DEVICE float square_root(float value) {
#ifdef __CUDACC__
  return __fsqrt_rn(value);
#else
  return std::sqrt(value);
#endif
}

// The elements of a pack as fp32.
template <typename T>
struct WidePack {
  static constexpr int elements = 16 / sizeof(typename Element<T>::Bits);
  float value[elements];

  BUSBW_DEVICE static WidePack of(const Pack<16>& pack) {
    WidePack wide;
    BUSBW_UNROLL
    for (int i = 0; i < elements; ++i) wide.value[i] = Element<T>::widen(PackReduction<T, 16>::element(pack, i));
    return wide;
  }
  BUSBW_DEVICE Pack<16> narrow() const {
    Pack<16> pack{};
    BUSBW_UNROLL
    for (int i = 0; i < elements; ++i) PackReduction<T, 16>::put(pack, i, Element<T>::narrow(value[i]));
    return pack;
  }
};

// The rows of a block, whose sums lie in the output.
template <typename T>
BUSBW_DEVICE void normalise_rows(const NormArguments& n, const Range& rows) {
  const std::uint64_t bytes = n.all.count * sizeof(T);
  const WholePackRow<16> out = PackRow<16>(n.all.recv, bytes).whole();
  const WholePackRow<16> residual = PackRow<16>(n.residual, bytes).whole();
  const WholePackRow<16> residual_out = PackRow<16>(n.residual_out, bytes).whole();
  const WholePackRow<16> weight = PackRow<16>(n.weight, bytes).whole();
  for (std::uint64_t row = rows.begin; row < rows.end; ++row) {
    const std::uint64_t begin = row * n.row_packs;
    Pack<16> kept[most_packs_of_a_norm];
    float squares = 0;
    BUSBW_UNROLL
    for (int k = 0; k < most_packs_of_a_norm; ++k) {
      const std::uint32_t i = thread_index() + std::uint32_t(k) * thread_count();
      if (i >= n.row_packs) continue;
      WidePack<T> x = WidePack<T>::of(out.load(begin + i));
      const WidePack<T> before = WidePack<T>::of(residual.load(begin + i));
      BUSBW_UNROLL
      for (int e = 0; e < WidePack<T>::elements; ++e) x.value[e] = x.value[e] + before.value[e];
      kept[k] = x.narrow();
      residual_out.store(begin + i, kept[k]);
      x = WidePack<T>::of(kept[k]);
      BUSBW_UNROLL
      for (int e = 0; e < WidePack<T>::elements; ++e) squares = squares + x.value[e] * x.value[e];
    }
    const float mean = block_sum(squares) / static_cast<float>(n.row_elements);
    const float inverse = 1.0f / square_root(mean + n.epsilon);
    BUSBW_UNROLL
    for (int k = 0; k < most_packs_of_a_norm; ++k) {
      const std::uint32_t i = thread_index() + std::uint32_t(k) * thread_count();
      if (i >= n.row_packs) continue;
      WidePack<T> x = WidePack<T>::of(kept[k]);
      const WidePack<T> scale = WidePack<T>::of(weight.load(i));
      BUSBW_UNROLL
      for (int e = 0; e < WidePack<T>::elements; ++e) x.value[e] = x.value[e] * inverse * scale.value[e];
      out.store(begin + i, x.narrow());
    }
  }
}

BUSBW_DEVICE Range rows_of_this_channel(const NormArguments& n) {
  return Range{0, n.rows}.part(channel_index(), channel_count());
}
BUSBW_DEVICE Range packs_of_rows(const NormArguments& n, const Range& rows) {
  return {rows.begin * n.row_packs, rows.end * n.row_packs};
}

// One hop, for few bytes: every rank adds everything.
template <typename T, int Most>
BUSBW_DEVICE void norm_one_shot(const NormArguments& n) {
  const Range rows = rows_of_this_channel(n);
  all_reduce_part_in_one_shot<T, Most>(n.all, packs_of_rows(n, rows));
  block_sync();
  normalise_rows<T>(n, rows);
}

// Two hops, for more: each rank adds a share of every channel's rows.
template <typename T, int Most>
BUSBW_DEVICE void norm_two_shot(const NormArguments& n) {
  const Range rows = rows_of_this_channel(n);
  all_reduce_part_in_two_shots<T, Most>(n.all, packs_of_rows(n, rows));
  block_sync();
  normalise_rows<T>(n, rows);
}

// Behind an all-reduce of any kind into the output.
template <typename T>
BUSBW_DEVICE void norm_alone(const NormArguments& n) {
  wait_for_previous();
  normalise_rows<T>(n, rows_of_this_channel(n));
}

}  // namespace busbw::gpu

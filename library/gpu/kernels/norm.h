// All-reduce, residual and RMSNorm of rows in one kernel, as tensor-parallel inference needs them twice a layer:
//
//     sum = the inputs of all ranks, added in their order, in fp32, rounded to the type
//     x = sum + residual, in fp32, rounded to the type                                   residual_out
//     y = x * (1 / sqrt(mean(x^2) + epsilon)) * weight, in fp32, rounded once                  output
//
// A channel has whole rows, so that a block normalises what it has added itself and no barrier of the grid is needed.
// Where rows are few, two to eight channels share one, and tell each other the sums of their squares. The sum lies in
// the output meanwhile. It is rounded before the residual is added, as it is where an all-reduce of its own gives it to
// whoever normalises: all algorithms, and NCCL behind a norm of ours, give the same bits.
#pragma once

#include "library/gpu/kernels/sentinel.h"

#ifndef __CUDACC__
#include <bit>
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

BUSBW_DEVICE std::uint32_t bits_of(float value) {
#ifdef __CUDACC__
  return __float_as_uint(value);
#else
  return std::bit_cast<std::uint32_t>(value);
#endif
}
BUSBW_DEVICE float float_of(std::uint32_t bits) {
#ifdef __CUDACC__
  return __uint_as_float(bits);
#else
  return std::bit_cast<float>(bits);
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

// What a channel has: whole rows, or of one row the packs `packs`.
struct PartOfRows {
  Range rows;
  Range packs;  // of each row

  BUSBW_DEVICE explicit PartOfRows(const NormArguments& n)
      : rows(Range{0, n.rows}.part(channel_index() / n.members, channel_count() / n.members)),
        packs(Range{0, n.row_packs}.part(channel_index() % n.members, n.members)) {}

  // As packs of the vector; without a gap, as several rows are whole ones.
  BUSBW_DEVICE Range of_vector(const NormArguments& n) const {
    if (rows.size() == 0) return {0, 0};
    return {rows.begin * n.row_packs + packs.begin, (rows.end - 1) * n.row_packs + packs.end};
  }
};

// The sum over the threads of all channels that share the row, the same for all of them.
BUSBW_DEVICE float sum_of_row(const NormArguments& n, float mine) {
  const float own = block_sum(mine);
  if (n.members == 1) return own;
  const int width = n.members == 2 ? 0 : n.members == 4 ? 1 : 2;
  ChannelState* const state = n.all.state;
  const std::uint32_t call = state[channel_index()].norm_calls[width] + 1;
  if (thread_index() == 0) {
    const std::uint64_t word = static_cast<std::uint64_t>(call) << 32 | bits_of(own);
    store_pairs(state[channel_index()].norm_squares[width], word, word);
  }
  // One thread for each member. The kernel before has ended, so that nobody still looks for the number of the last
  // call.
  float of_member = 0;
  if (thread_index() < n.members) {
    const unsigned member = channel_index() / n.members * n.members + thread_index();
    Patience patience(n.all.abort);
    std::uint64_t low = 0, high = 0;
    do {
      load_pairs(state[member].norm_squares[width], low, high);
    } while (low >> 32 != call && patience.again());
    of_member = float_of(static_cast<std::uint32_t>(low));
  }
  const float sum = block_sum(of_member);
  if (thread_index() == 0) state[channel_index()].norm_calls[width] = call;
  return sum;
}

// Rows whose sums lie in the output.
template <typename T>
BUSBW_DEVICE void normalise_rows(const NormArguments& n, const PartOfRows& part) {
  const std::uint64_t bytes = n.all.count * sizeof(T);
  const WholePackRow<16> out = PackRow<16>(n.all.recv, bytes).whole();
  const WholePackRow<16> residual = PackRow<16>(n.residual, bytes).whole();
  const WholePackRow<16> residual_out = PackRow<16>(n.residual_out, bytes).whole();
  const WholePackRow<16> weight = PackRow<16>(n.weight, bytes).whole();
  const auto first = static_cast<std::uint32_t>(part.packs.begin);
  const auto count = static_cast<std::uint32_t>(part.packs.size());
  for (std::uint64_t row = part.rows.begin; row < part.rows.end; ++row) {
    const std::uint64_t begin = row * n.row_packs + first;
    Pack<16> kept[most_packs_of_a_norm];
    float squares = 0;
    BUSBW_UNROLL
    for (int k = 0; k < most_packs_of_a_norm; ++k) {
      const std::uint32_t i = thread_index() + std::uint32_t(k) * thread_count();
      if (i >= count) continue;
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
    const float mean = sum_of_row(n, squares) / static_cast<float>(n.row_elements);
    const float inverse = 1.0f / square_root(mean + n.epsilon);
    BUSBW_UNROLL
    for (int k = 0; k < most_packs_of_a_norm; ++k) {
      const std::uint32_t i = thread_index() + std::uint32_t(k) * thread_count();
      if (i >= count) continue;
      WidePack<T> x = WidePack<T>::of(kept[k]);
      const WidePack<T> scale = WidePack<T>::of(weight.load(first + i));
      BUSBW_UNROLL
      for (int e = 0; e < WidePack<T>::elements; ++e) x.value[e] = x.value[e] * inverse * scale.value[e];
      out.store(begin + i, x.narrow());
    }
  }
}

// One hop, for few bytes: every rank adds everything.
template <typename T, int Most>
BUSBW_DEVICE void norm_one_shot(const NormArguments& n) {
  const PartOfRows part(n);
  all_reduce_part_in_one_shot<T, Most>(n.all, part.of_vector(n));
  block_sync();
  normalise_rows<T>(n, part);
}

// Two hops, for more: each rank adds a share of every channel's rows.
template <typename T, int Most>
BUSBW_DEVICE void norm_two_shot(const NormArguments& n) {
  const PartOfRows part(n);
  all_reduce_part_in_two_shots<T, Most>(n.all, part.of_vector(n));
  block_sync();
  normalise_rows<T>(n, part);
}

// Behind an all-reduce of any kind into the output.
template <typename T>
BUSBW_DEVICE void norm_alone(const NormArguments& n) {
  wait_for_previous();
  normalise_rows<T>(n, PartOfRows(n));
}

}  // namespace busbw::gpu

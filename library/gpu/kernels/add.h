// Adds what peers have pushed into this rank's scratch by copy engines (run/staged.h) to what this rank has itself. No
// block waits for anything, so that a kernel of many blocks takes a moment of the whole GPU instead of a part of it for
// as long as the links need.
#pragma once

#include "library/gpu/kernels/arguments.h"
#include "library/gpu/kernels/pack.h"
#include "library/gpu/kernels/range.h"
#include "library/gpu/kernels/reduction.h"

namespace busbw::gpu {

// Packs that a thread has under way together.
template <int Most>
inline constexpr int packs_of_an_adder = Most <= 4 ? 2 : 1;

// The same order of ranks as every other algorithm, and so the same bits.
template <typename T, int Most, typename Own, typename Result>
BUSBW_DEVICE void add_rows(const AddArguments& a, const Own& own, const Result& result) {
  constexpr int batch = packs_of_an_adder<Most>;
  const std::uint64_t packs = packs_of(a.bytes, 16);
  const std::uint64_t threads = std::uint64_t{channel_count()} * thread_count();
  const std::uint64_t first = std::uint64_t{channel_index()} * thread_count() + thread_index();
  for (std::uint64_t at = first; at < packs; at += batch * threads) {
    PackOfEach<16, Most> rows[batch];
    BUSBW_UNROLL
    for (int k = 0; k < batch; ++k) {
      const std::uint64_t i = at + k * threads;
      if (i >= packs) continue;
      BUSBW_UNROLL
      for (int source = 0; source < Most; ++source)
        if (source < a.ranks)
          rows[k].from[source] = source == a.rank ? own.load(i) : pack_of(load_relaxed(a.pushed[source] + 16 * i));
    }
    BUSBW_UNROLL
    for (int k = 0; k < batch; ++k) {
      const std::uint64_t i = at + k * threads;
      if (i >= packs) continue;
      const Pack<16> sum = PackReduction<T, 16>::run(rows[k], a.ranks, a.op);
      result.store(i, sum);
      if (a.offered != nullptr) store_data(a.offered + 16 * i, words_of(sum));
    }
  }
}

template <typename T, int Most>
BUSBW_DEVICE void add(const AddArguments& a) {
  const PackRow<16> own(a.own, a.bytes);
  const PackRow<16> result(a.result, a.bytes);
  const std::uint64_t packs = packs_of(a.bytes, 16);
  if (own.is_whole(packs) && result.is_whole(packs)) {
    add_rows<T, Most>(a, own.whole(), result.whole());
  } else {
    add_rows<T, Most>(a, own, result);
  }
}

}  // namespace busbw::gpu

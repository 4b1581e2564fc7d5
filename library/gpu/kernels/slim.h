// Copies within a GPU and sums for staged copies (run/staged.h) by kernels so small that they run beside a product.
//
// A product of cuBLAS on Hopper holds every multiprocessor for as long as it runs: one block of 384 threads with all
// but a few of the registers. Some of its warps end at once, and on each multiprocessor two blocks of one warp with at
// most 32 registers a thread and some 5 KB of shared memory find room then, each once until the product has ended.
// Copies of the driver within one GPU are kernels of large blocks, which wait for that end. The next product does not
// begin on a multiprocessor that still has such a block: so these kernels are short, and wait for nobody. (Measured:
// docs/decisions/0083.)
//
// Memory comes and goes in bulk, by the unit that copies for a multiprocessor (TMA): one thread can have 4 KB under
// way, where one warp's loads would have 2 KB and need registers for them.
#pragma once

#include "library/gpu/kernels/arguments.h"
#include "library/gpu/kernels/bulk.h"
#include "library/gpu/kernels/reduction.h"

namespace busbw::gpu {

// As add() in add.h for op_sum and op_avg, where all addresses and sizes are multiples of 16.
template <typename T, int Most>
BUSBW_DEVICE void slim_add(const AddArguments& a, Bulk bulk) {
  using Sum = PackReduction<T, 16>;
  constexpr int elements = 16 / sizeof(typename Element<T>::Bits);
  const float scale = a.op == op_avg ? 1.0f / float(a.ranks) : 1.0f;
  const int row = int(thread_index());
  const void* const mine = row == a.rank ? a.own : row < a.ranks ? a.pushed[row] : nullptr;
  bulk.rows<Most>(mine, a.ranks, std::uint32_t(a.bytes), channel_index(), channel_count(),
                  [&](std::uint32_t at, auto load) {
                    float total[elements];
                    BUSBW_UNROLL
                    for (int rank = 0; rank < Most; ++rank) {
                      if (Most > 2 && rank >= a.ranks) continue;
                      const Pack<16> pack = load(rank);
                      BUSBW_UNROLL
                      for (int i = 0; i < elements; ++i) {
                        const float next = Element<T>::widen(Sum::element(pack, i));
                        total[i] = rank == 0 ? next : total[i] + next;
                      }
                    }
                    Pack<16> sum{};
                    BUSBW_UNROLL
                    for (int i = 0; i < elements; ++i) Sum::put(sum, i, Element<T>::narrow(total[i] * scale));
                    *reinterpret_cast<Pack<16>*>(static_cast<unsigned char*>(a.result) + at) = sum;
                    if (a.offered) store_data(a.offered + at, words_of(sum));
                  });
}

}  // namespace busbw::gpu

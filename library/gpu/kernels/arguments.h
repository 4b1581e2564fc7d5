// What the host hands to a kernel, read by the CUDA compiler and by the host compiler alike.
#pragma once

#include <cstdint>

#include "library/gpu/kernels/layout.h"

namespace busbw::gpu {

// Two, four or eight channels may share a row of a norm.
inline constexpr int norm_widths = 3;

// What a channel of one rank remembers from one kernel to the next, in that rank's own device memory. It lives there
// and not in arguments, because a CUDA graph replays the arguments of its capture. All zero before the first kernel.
struct alignas(128) ChannelState {
  std::uint32_t ll_epoch;                    // of the last call; 0 before the first
  std::uint32_t sentinel_set;                // of the last call
  std::uint32_t sentinel_dirty[ports];       // packs of each source that the last call may have filled
  std::uint32_t sent[ports][max_ranks];      // steps of the Simple protocol sent to a peer
  std::uint32_t received[ports][max_ranks];  // and received from it
  std::uint32_t meetings;                    // of the rank; channel 0 counts them
  // Of norms whose rows so many channels share: calls that this channel was part of, and in each 8 bytes the sum of its
  // squares (below) and the number of the last of these calls.
  std::uint32_t norm_calls[norm_widths];
  alignas(16) std::uint64_t norm_squares[norm_widths][2];
};

// NCCL's numbers.
enum ReduceOp : std::int32_t { op_sum = 0, op_prod = 1, op_max = 2, op_min = 3, op_avg = 4 };

// Counts are in elements for kernels that reduce, in bytes for those that move:
//   all-reduce      the whole vector
//   reduce-scatter  one rank's result
//   all-gather      one rank's contribution
//   all-to-all      what one rank sends to one other
//   broadcast       the whole vector
struct KernelArguments {
  const void* send = nullptr;
  void* recv = nullptr;
  std::uint64_t count = 0;
  std::int32_t rank = 0;
  std::int32_t ranks = 0;
  std::int32_t root = 0;
  ReduceOp op = op_sum;
  ChannelState* state = nullptr;           // [channels]
  const std::uint32_t* abort = nullptr;    // not zero: a peer is lost and every wait ends; host memory
  unsigned char* scratch[max_ranks] = {};  // of every rank, as this rank's GPU addresses it
  Layout layout;
};

// Of the kernel that adds what peers have pushed (kernels/add.h): `bytes` of the own part, and as many of each peer.
struct AddArguments {
  const void* own = nullptr;
  void* result = nullptr;
  unsigned char* offered = nullptr;             // in the own scratch, for peers to fetch; or null
  const unsigned char* pushed[max_ranks] = {};  // in the own scratch, by source
  std::uint64_t bytes = 0;
  std::int32_t rank = 0;
  std::int32_t ranks = 0;
  ReduceOp op = op_sum;
};

// Of a copy within this GPU (kernels/slim.h): addresses and bytes are multiples of 16, bytes less than 4 GiB.
struct CopyArguments {
  void* to = nullptr;
  void* also = nullptr;  // a second place, or null
  const void* from = nullptr;
  std::uint64_t bytes = 0;
};

// Of all-reduce, residual and RMSNorm in one (kernels/norm.h): rows of `row_packs` packs of 16 bytes. `all.recv` is the
// output; `all.count` all elements.
struct NormArguments {
  KernelArguments all;
  const void* residual = nullptr;
  void* residual_out = nullptr;
  const void* weight = nullptr;
  std::uint64_t rows = 0;
  std::uint32_t row_packs = 0;
  std::uint32_t row_elements = 0;
  // Channels that share each row: 1, or 2, 4 or 8 where none of them has two rows. They are on the GPU together, as all
  // channels of a kernel are.
  std::uint32_t members = 1;
  float epsilon = 0;
};

// How many ranks there are, as a constant where a kernel of at most `Most` ranks can know it.
template <int Most>
BUSBW_BOTH constexpr int ranks_of(const KernelArguments& arguments) {
  return Most == 2 ? 2 : arguments.ranks;
}

// The peers of a rank one after the other, for i = 1 to ranks - 1: each rank starts behind itself, so that not all
// write to the same one first.
BUSBW_BOTH constexpr int peer_after(const KernelArguments& arguments, int i) {
  const int peer = arguments.rank + i;
  return peer < arguments.ranks ? peer : peer - arguments.ranks;
}

}  // namespace busbw::gpu

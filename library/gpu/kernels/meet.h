// A meeting: no rank goes on before all ranks have come. Copies of the copy engines into the peers' windows stand
// between two meetings:
//
//     rank 0   ...  meet  | copy into rank 1's window |  meet  ...
//     rank 1   ...  meet  | copy into rank 0's window |  meet  ...
//                     |                                    |
//                     everybody's output may be written    everybody's output is written
//
// Each rank counts its meetings and writes the number into every peer's scratch. Numbers wrap at 2^32, which their
// differences do not notice: a rank is never more than one meeting ahead.
#pragma once

#include "library/gpu/kernels/arguments.h"
#include "library/gpu/kernels/machine.h"

namespace busbw::gpu {

// By one block with a thread for each rank at least.
BUSBW_DEVICE void meet(const KernelArguments& a) {
  wait_for_previous();
  const std::uint32_t number = a.state->meetings + 1;
  const int peer = static_cast<int>(thread_index());
  if (peer < a.ranks && peer != a.rank) {
    // What came before in the stream, copies included, is there before the number is.
    release_fence();
    store_flag(a.scratch[peer] + a.layout.met(a.rank), number);
    const unsigned char* theirs = a.scratch[a.rank] + a.layout.met(peer);
    Patience patience(a.abort);
    while (static_cast<std::int32_t>(load_flag_acquire(theirs) - number) < 0 && patience.again()) {
    }
  }
  block_sync();
  if (thread_index() == 0) a.state->meetings = number;
}

}  // namespace busbw::gpu

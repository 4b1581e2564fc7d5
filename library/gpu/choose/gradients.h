// Which calls are those of gradients that a program reduces while it still computes the next ones.
#pragma once

namespace busbw::gpu {

// Whether PyTorch's DistributedDataParallel makes the call that this thread is in: its reducer (c10d::Reducer of
// libtorch) is on the thread's stack. Nothing else about a call tells it from an all-reduce that a program waits for:
// size, type and stream are the same. A look takes some 10 us, the first one a few ms. False where no such function is
// found.
bool called_for_gradients();

}  // namespace busbw::gpu

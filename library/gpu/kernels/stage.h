// Stages of a pipeline inside a block. The block's warps are dealt out to stages, and each stage has three parts:
//
//     gate     a warp; each lane attends to one peer and waits until the peer lets step t begin
//     workers  the other warps; move the data of step t
//     clerk    a warp; each lane tells its peer that step t is done, behind a fence where data went out
//
//                   step 0        step 1        step 2
//     gate      |--wait--|    |-wait-|      |-wait-|
//     workers            |===move===|=|===move===|=|===move===|
//     clerk                           |fence, tell| |fence, tell| |fence, tell|
//
// A fence takes as long as the stores before it need to arrive. Here only the clerk waits for it, while the workers go
// on with the next step, so that links never idle.
#pragma once

#include "library/gpu/kernels/arguments.h"
#include "library/gpu/kernels/machine.h"

namespace busbw::gpu {

// Barrier 0 is that of the whole block; the hardware has 16.
inline constexpr unsigned barriers_of_a_stage = 2;
inline constexpr unsigned warps_of_a_stage = 3;

class Stage {
 public:
  BUSBW_DEVICE Stage(const KernelArguments& arguments, unsigned stages)
      : size_(thread_count() / stages / warp_threads * warp_threads), index_(thread_index() / size_) {
    const unsigned within = thread_index() - index_ * size_;
    part_ = within / warp_threads;
    worker_ = within - 2 * warp_threads;
    const int lane = static_cast<int>(within % warp_threads);
    peer_ = lane < arguments.ranks && lane != arguments.rank ? lane : -1;
  }

  // Which stage this thread belongs to; one at or beyond the number of stages has nothing to do.
  BUSBW_DEVICE unsigned index() const { return index_; }

  // For step t: `gate(t, peer)` waits, `work(t)` moves data as one of workers(), `clerk(t, peer)` tells.
  template <typename Gate, typename Work, typename Clerk>
  BUSBW_DEVICE void run(std::uint32_t steps, const Gate& gate, const Work& work, const Clerk& clerk) const {
    const unsigned begin = 1 + index_ * barriers_of_a_stage;
    const unsigned end = begin + 1;
    const unsigned all_but_one = size_ - warp_threads;
    if (part_ == 0) {
      for (std::uint32_t t = 0; t < steps; ++t) {
        if (peer_ >= 0) gate(t, peer_);
        warp_sync();
        group_sync(begin, all_but_one);
      }
    } else if (part_ == 1) {
      for (std::uint32_t t = 0; t < steps; ++t) {
        group_sync(end, all_but_one);
        if (peer_ >= 0) clerk(t, peer_);
        warp_sync();
      }
    } else {
      for (std::uint32_t t = 0; t < steps; ++t) {
        group_sync(begin, all_but_one);
        work(t);
        warp_sync();
        group_sync(end, all_but_one);
      }
    }
  }

  // For what is done once for a peer: by one thread of the stage.
  template <typename Body>
  BUSBW_DEVICE void once_per_peer(const Body& body) const {
    if (part_ == 0 && peer_ >= 0) body(peer_);
  }

  // Calls `body(i)` for this worker's share of 0 <= i < count, `Batch` at a time: `load(i, k)` for all of a batch
  // first, so that so many loads are under way, then `store(i, k)`.
  template <int Batch, typename Load, typename Store>
  BUSBW_DEVICE void for_each(std::uint64_t count, const Load& load, const Store& store) const {
    const unsigned workers = size_ - 2 * warp_threads;
    for (std::uint64_t first = worker_; first < count; first += Batch * workers) {
      BUSBW_UNROLL
      for (int k = 0; k < Batch; ++k)
        if (first + k * workers < count) load(first + k * workers, k);
      BUSBW_UNROLL
      for (int k = 0; k < Batch; ++k)
        if (first + k * workers < count) store(first + k * workers, k);
    }
  }

 private:
  unsigned size_;
  unsigned index_;
  unsigned part_ = 0;    // 0: gate, 1: clerk, else worker
  unsigned worker_ = 0;  // number of this worker
  int peer_ = -1;        // that this lane of gate or clerk attends to
};

}  // namespace busbw::gpu

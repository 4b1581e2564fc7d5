// Stages of a pipeline inside a block. The block's warps are dealt out to stages, and each stage has three parts:
//
//     gate     a warp; each lane attends to one peer and waits until the peer lets step t begin
//     workers  the other warps; move the data of step t, each its share
//     clerk    a warp; each lane tells its peer that step t is done, behind a fence where data went out
//
//     gate      |--wait 0--|--wait 1--|--wait 2--|
//     worker a             |==0==||==1==|    |==2==|
//     worker b             |===0===||==1==|  |=2=|
//     clerk                        |fence, tell 0| |fence, tell 1|  |fence, tell 2|
//
// A fence takes as long as the stores before it need to arrive. Here only the clerk waits for it, and no worker waits
// for another, so that links never idle between steps. The parts tell each other how far they are by words of shared
// memory.
#pragma once

#include "library/gpu/kernels/arguments.h"
#include "library/gpu/kernels/machine.h"

namespace busbw::gpu {

inline constexpr unsigned warps_of_a_stage = 3;  // at least

class Stage {
 public:
  // By all threads of the block.
  BUSBW_DEVICE Stage(const KernelArguments& arguments, unsigned stages)
      : size_(thread_count() / stages / warp_threads * warp_threads), index_(thread_index() / size_) {
    const unsigned within = thread_index() - index_ * size_;
    part_ = within / warp_threads;
    worker_ = within - 2 * warp_threads;
    lane_ = within % warp_threads;
    const int peer = static_cast<int>(lane_);
    peer_ = peer < arguments.ranks && peer != arguments.rank ? peer : -1;
    if (lane_ == 0) tell_block(own_word(), 0);
    block_sync();
  }

  // Which stage this thread belongs to; one at or beyond the number of stages has nothing to do.
  BUSBW_DEVICE unsigned index() const { return index_; }

  // For step t: `gate(t, peer)` waits, `work(t)` moves data as one of workers(), `clerk(t, peer)` tells. Once a kernel.
  template <typename Gate, typename Work, typename Clerk>
  BUSBW_DEVICE void run(std::uint32_t steps, const Gate& gate, const Work& work, const Clerk& clerk) const {
    if (part_ == 0) {
      for (std::uint32_t t = 0; t < steps; ++t) {
        if (peer_ >= 0) gate(t, peer_);
        warp_sync();
        if (lane_ == 0) tell_block(own_word(), t + 1);
      }
    } else if (part_ == 1) {
      for (std::uint32_t t = 0; t < steps; ++t) {
        for (unsigned warp = 2; warp < size_ / warp_threads; ++warp) wait_in_block(warp, t);
        if (peer_ >= 0) clerk(t, peer_);
      }
    } else {
      for (std::uint32_t t = 0; t < steps; ++t) {
        wait_in_block(0, t);
        work(t);
        warp_sync();
        if (lane_ == 0) tell_block(own_word(), t + 1);
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
  // Of this thread's warp: how many steps it is done with.
  BUSBW_DEVICE static unsigned own_word() { return thread_index() / warp_threads; }

  // Until a warp of this stage (0: the gate) has said that it is done with step t.
  BUSBW_DEVICE void wait_in_block(unsigned warp, std::uint32_t t) const {
    while (ask_block(index_ * (size_ / warp_threads) + warp) <= t) pause();
  }

  unsigned size_;
  unsigned index_;
  unsigned lane_ = 0;
  unsigned part_ = 0;    // 0: gate, 1: clerk, else worker
  unsigned worker_ = 0;  // number of this worker
  int peer_ = -1;        // that this lane of gate or clerk attends to
};

}  // namespace busbw::gpu

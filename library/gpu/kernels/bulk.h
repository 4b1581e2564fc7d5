// Memory in bulk, by one warp: a unit of the multiprocessor (TMA, from Hopper on) copies from global memory to shared
// memory and back while the warp does something else. For blocks of one warp; addresses and sizes are multiples of 16.
#pragma once

#include "library/gpu/kernels/pack.h"

namespace busbw::gpu {

class Bulk {
 public:
  static constexpr std::uint32_t bytes_of_all = 4096;  // of shared memory
  static constexpr int most_stages = 4;
  static constexpr std::uint32_t moved_at_once = bytes_of_all / most_stages;
  static constexpr std::uint32_t row = 32 * 16;  // one pack for each thread

  // Once in a kernel, by all threads. `memory` is aligned to 128 bytes.
  BUSBW_DEVICE Bulk(void* memory, std::uint64_t* barriers)
      : memory_(std::uint32_t(__cvta_generic_to_shared(memory))),
        barriers_(std::uint32_t(__cvta_generic_to_shared(barriers))) {
    if (thread_index() == 0) {
      for (int stage = 0; stage < most_stages; ++stage) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier(stage)) : "memory");
      }
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    block_sync();
  }

  // By one thread: this block's part of a copy to one or two places, which has arrived there for all when it returns.
  BUSBW_DEVICE void move(void* to, void* also, const void* from, std::uint32_t bytes, std::uint32_t block,
                         std::uint32_t blocks) {
    see_what_others_stored();
    const std::uint32_t step = blocks * moved_at_once;
    std::uint32_t ahead = block * moved_at_once;
    const auto load = [&](int stage) {
      const std::uint32_t now = min(moved_at_once, bytes - ahead);
      expect(stage, now);
      fetch(stage, stage * moved_at_once, at(from, ahead), now);
      ahead += step;
    };
    for (int stage = 0; stage < most_stages - 1 && ahead < bytes; ++stage) load(stage);
    int stage = 0, next = most_stages - 1;
    for (std::uint32_t here = block * moved_at_once; here < bytes; here += step) {
      if (ahead < bytes) {
        // What this stage held has been read.
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        load(next);
      }
      next = next + 1 == most_stages ? 0 : next + 1;
      wait(stage);
      const std::uint32_t now = min(moved_at_once, bytes - here);
      put(at(to, here), stage * moved_at_once, now);
      if (also) put(at(also, here), stage * moved_at_once, now);
      asm volatile("cp.async.bulk.commit_group;" ::: "memory");
      stage = stage + 1 == most_stages ? 0 : stage + 1;
    }
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    asm volatile("fence.proxy.async;" ::: "memory");
  }

  // By all threads, each of the first `count` with a row of its own: this block's part of `count` rows that lie at
  // `mine`. Calls use(at, load) for each pack of a thread, where load(i) gives that of row i.
  template <int Most, class Use>
  BUSBW_DEVICE void rows(const void* mine, int count, std::uint32_t bytes, std::uint32_t block, std::uint32_t blocks,
                         Use use) {
    constexpr int stages = bytes_of_all / (Most * row);
    see_what_others_stored();
    const std::uint32_t step = blocks * row;
    std::uint32_t ahead = block * row;
    const auto load = [&](int stage) {
      const std::uint32_t now = min(row, bytes - ahead);
      if (thread_index() == 0) expect(stage, now * std::uint32_t(count));
      warp_sync();
      if (int(thread_index()) < count) fetch(stage, (stage * Most + int(thread_index())) * row, at(mine, ahead), now);
      ahead += step;
    };
    for (int stage = 0; stage < stages && ahead < bytes; ++stage) load(stage);
    int stage = 0;
    for (std::uint32_t here = block * row + 16 * thread_index(), begin = block * row; begin < bytes;
         here += step, begin += step) {
      wait(stage);
      const auto pack = [&](int i) {
        Pack<16> value;
        asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(value.word[0]), "=r"(value.word[1]), "=r"(value.word[2]), "=r"(value.word[3])
                     : "r"(memory_ + (stage * Most + i) * row + 16 * thread_index())
                     : "memory");
        return value;
      };
      if (here < bytes) use(here, pack);
      warp_sync();
      if (ahead < bytes) load(stage);
      stage = stage + 1 == stages ? 0 : stage + 1;
    }
  }

 private:
  BUSBW_DEVICE std::uint32_t barrier(int stage) const { return barriers_ + 8 * stage; }

  // Memory that other units and GPUs have written, and that this thread has seen a flag of.
  BUSBW_DEVICE static void see_what_others_stored() { asm volatile("fence.proxy.async;" ::: "memory"); }

  BUSBW_DEVICE void expect(int stage, std::uint32_t bytes) const {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier(stage)), "r"(bytes) : "memory");
  }
  BUSBW_DEVICE void fetch(int stage, std::uint32_t to, const void* from, std::uint32_t bytes) const {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(memory_ + to),
        "l"(from), "r"(bytes), "r"(barrier(stage))
        : "memory");
  }
  BUSBW_DEVICE void put(void* to, std::uint32_t from, std::uint32_t bytes) const {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(memory_ + from),
                 "r"(bytes)
                 : "memory");
  }
  // Each stage is waited for as often as it was filled, so that one bit says which time it is.
  BUSBW_DEVICE void wait(int stage) {
    std::uint32_t done;
    do {
      asm volatile(
          "{\n.reg .pred done;\nmbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\nselp.u32 %0, 1, 0, done;\n}"
          : "=r"(done)
          : "r"(barrier(stage)), "r"(phases_ >> stage & 1)
          : "memory");
    } while (!done);
    phases_ ^= 1u << stage;
  }

  std::uint32_t memory_;
  std::uint32_t barriers_;
  std::uint32_t phases_ = 0;
};

}  // namespace busbw::gpu

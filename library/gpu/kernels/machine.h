// The few things that kernels ask of the machine: who am I, a barrier of the block, and the memory accesses that peers
// see or make. Kernel code is written against these, so that the same text runs on a GPU and, for the tests, on a
// simulated machine that delays and reorders what the memory model lets it.
//
// Memory of the user is read and written by ordinary C++ accesses. Scratch memory only by the functions below.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define BUSBW_DEVICE __device__ __forceinline__
#define BUSBW_UNROLL _Pragma("unroll")
#else
#define BUSBW_DEVICE inline
#define BUSBW_UNROLL
#endif

namespace busbw::gpu {

// Threads that run together. Fewer in the simulation, where each costs a stack.
#ifdef __CUDACC__
inline constexpr unsigned warp_threads = 32;
#else
inline constexpr unsigned warp_threads = 8;
#endif

// 16 bytes, the widest access of a thread.
struct alignas(16) Words {
  std::uint32_t word[4];
};

#ifdef __CUDACC__

BUSBW_DEVICE unsigned thread_index() { return threadIdx.x; }
BUSBW_DEVICE unsigned thread_count() { return blockDim.x; }
BUSBW_DEVICE unsigned channel_index() { return blockIdx.x; }
BUSBW_DEVICE unsigned channel_count() { return gridDim.x; }
BUSBW_DEVICE void block_sync() { __syncthreads(); }

// The same barrier, and whether any thread of the block came with true.
BUSBW_DEVICE bool block_any(bool mine) { return __syncthreads_or(mine) != 0; }

// The sum of what the block's threads bring, at most 1024 of them, in an order that hangs on their number alone; a
// barrier too. The same for all of them.
BUSBW_DEVICE float block_sum(float mine) {
  __shared__ float of_warps[32];
  for (int lanes = 16; lanes > 0; lanes /= 2) mine += __shfl_xor_sync(0xffffffff, mine, lanes);
  // Who is late may still read what the call before has left.
  __syncthreads();
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = mine;
  __syncthreads();
  float sum = 0;
  for (unsigned warp = 0; warp < blockDim.x / 32; ++warp) sum += of_warps[warp];
  return sum;
}

// A barrier of some of the block's warps, `threads` in all; `barrier` is one of 16, and 0 is that of block_sync.
BUSBW_DEVICE void group_sync(unsigned barrier, unsigned threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
BUSBW_DEVICE void warp_sync() { __syncwarp(); }

// The next kernel of the stream may be brought to the GPU while this one runs, if it was launched so that it waits
// below.
BUSBW_DEVICE void let_next_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Until all kernels before this one in the stream have ended. Memory that they may have written is read after it.
BUSBW_DEVICE void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Between two looks at memory that a peer will write.
BUSBW_DEVICE void pause() {}

// A store that each half of 8 bytes arrives of as one; the two halves in any order, and in none against other stores.
// Vectors of 64-bit words, because in PTX a vector access is that many scalar ones, and a scalar one is never torn.
BUSBW_DEVICE void store_pairs(void* to, std::uint64_t low, std::uint64_t high) {
  asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(to), "l"(low), "l"(high) : "memory");
}

BUSBW_DEVICE void load_pairs(const void* from, std::uint64_t& low, std::uint64_t& high) {
  asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];" : "=l"(low), "=l"(high) : "l"(from) : "memory");
}

// The same with no more than words of 4 bytes arriving as one.
BUSBW_DEVICE void store_relaxed(void* to, const Words& value) {
  asm volatile("st.relaxed.sys.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(value.word[0]), "r"(value.word[1]),
               "r"(value.word[2]), "r"(value.word[3])
               : "memory");
}

// Reads what peers write, past the L1 cache.
BUSBW_DEVICE Words load_relaxed(const void* from) {
  Words value;
  asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.word[0]), "=r"(value.word[1]), "=r"(value.word[2]), "=r"(value.word[3])
               : "l"(from)
               : "memory");
  return value;
}

// Data that a flag will announce.
BUSBW_DEVICE void store_data(void* to, const Words& value) { *static_cast<Words*>(to) = value; }

BUSBW_DEVICE void store_flag(void* to, std::uint32_t value) {
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}

BUSBW_DEVICE std::uint32_t load_flag(const void* from) {
  std::uint32_t value;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}

BUSBW_DEVICE std::uint32_t load_flag_acquire(const void* from) {
  std::uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}

// What this block has stored before its last barrier comes before what this thread stores next, for every peer.
BUSBW_DEVICE void release_fence() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }

#else

unsigned thread_index();
unsigned thread_count();
unsigned channel_index();
unsigned channel_count();
void block_sync();
bool block_any(bool mine);
float block_sum(float mine);
void group_sync(unsigned barrier, unsigned threads);
inline void warp_sync() {}
inline void let_next_begin() {}
inline void wait_for_previous() {}
void pause();
void store_pairs(void* to, std::uint64_t low, std::uint64_t high);
void load_pairs(const void* from, std::uint64_t& low, std::uint64_t& high);
void store_relaxed(void* to, const Words& value);
Words load_relaxed(const void* from);
void store_data(void* to, const Words& value);
void store_flag(void* to, std::uint32_t value);
std::uint32_t load_flag(const void* from);
std::uint32_t load_flag_acquire(const void* from);
void release_fence();

#endif

// A wait that ends when the host says that a peer is lost. From then on nothing waits any more: the kernel runs to its
// end over whatever is there, and the host tells the caller that the result is void.
class Patience {
 public:
  BUSBW_DEVICE explicit Patience(const std::uint32_t* abort) : abort_(abort) {}

  // True to look again.
  BUSBW_DEVICE bool again() {
    pause();
    // The word lies in host memory: a look takes about a microsecond.
    if (!lost_ && ++looks_ % looks_per_abort_look == 0) lost_ = load_flag(abort_) != 0;
    return !lost_;
  }

 private:
  static constexpr std::uint32_t looks_per_abort_look = 4096;
  const std::uint32_t* abort_;
  std::uint32_t looks_ = 0;
  bool lost_ = false;
};

}  // namespace busbw::gpu

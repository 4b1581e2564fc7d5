// The types of a kernel that reduces, as macros take them: the name in nccl-tests and the type in C++.
#pragma once

#include "library/gpu/kernels/arguments.h"

#define BUSBW_FLOAT_TYPES(KERNEL) \
  KERNEL(half, Half)              \
  KERNEL(bfloat16, Bfloat16)      \
  KERNEL(float, float)

#define BUSBW_ALL_TYPES(KERNEL) \
  BUSBW_FLOAT_TYPES(KERNEL)     \
  KERNEL(double, double)        \
  KERNEL(f8e4m3, F8e4m3)        \
  KERNEL(f8e5m2, F8e5m2)        \
  KERNEL(int8, std::int8_t)     \
  KERNEL(uint8, std::uint8_t)   \
  KERNEL(int32, std::int32_t)   \
  KERNEL(uint32, std::uint32_t) \
  KERNEL(int64, std::int64_t)   \
  KERNEL(uint64, std::uint64_t)

// Entry points for 2, up to 4 and up to 8 ranks: what a thread holds for each rank is in registers, and with fewer
// ranks there is room for more packs at once. Arguments stay in constant memory, where every thread reads them without
// a load from global memory.
//
// So many BLOCKS of the largest size fit on a multiprocessor at once: a kernel that takes many multiprocessors must
// leave room for those of another communicator, which its peers may wait for. For 8 ranks, blocks of 2 are smaller, so
// that each thread has more registers (most_threads in names.h).
#define BUSBW_ENTRY(THREADS, BLOCKS, NAME, ...)                      \
  extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)      \
      NAME(const __grid_constant__::busbw::gpu::KernelArguments a) { \
    ::busbw::gpu::__VA_ARGS__(a);                                    \
  }
#define BUSBW_ENTRY_FOR_8_1(NAME, ...) BUSBW_ENTRY(512, 1, NAME, __VA_ARGS__)
#define BUSBW_ENTRY_FOR_8_2(NAME, ...) BUSBW_ENTRY(320, 2, NAME, __VA_ARGS__)
#define BUSBW_REDUCTION(BLOCKS, NAME, BODY, T)           \
  BUSBW_ENTRY(512, BLOCKS, busbw_##NAME##_2, BODY<T, 2>) \
  BUSBW_ENTRY(512, BLOCKS, busbw_##NAME##_4, BODY<T, 4>) \
  BUSBW_ENTRY_FOR_8_##BLOCKS(busbw_##NAME##_8, BODY<T, 8>)
#define BUSBW_MOVE(BLOCKS, NAME, BODY)                \
  BUSBW_ENTRY(512, BLOCKS, busbw_##NAME##_2, BODY<2>) \
  BUSBW_ENTRY(512, BLOCKS, busbw_##NAME##_4, BODY<4>) \
  BUSBW_ENTRY_FOR_8_##BLOCKS(busbw_##NAME##_8, BODY<8>)

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

// An entry point. Arguments stay in constant memory, where every thread reads them without a load from global memory.
// BLOCKS of 512 threads fit on a multiprocessor at once: a kernel that takes many must leave room for those of another
// communicator, which its peers may wait for.
#define BUSBW_KERNEL(BLOCKS, NAME, BODY)                             \
  extern "C" __global__ void __launch_bounds__(512, BLOCKS)          \
      NAME(const __grid_constant__::busbw::gpu::KernelArguments a) { \
    ::busbw::gpu::BODY(a);                                           \
  }

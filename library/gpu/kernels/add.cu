// Entry points of the kernel that adds.
#include "library/gpu/kernels/add.h"

#include "library/gpu/kernels/instances.h"

using busbw::Bfloat16;
using busbw::F8e4m3;
using busbw::F8e5m2;
using busbw::Half;

#define ADD_FOR(NAME, T, MOST)                                                        \
  extern "C" __global__ void __launch_bounds__(256)                                   \
      busbw_add_##NAME##_##MOST(const __grid_constant__ busbw::gpu::AddArguments a) { \
    busbw::gpu::add<T, MOST>(a);                                                      \
  }
#define ADD(NAME, T)  \
  ADD_FOR(NAME, T, 2) \
  ADD_FOR(NAME, T, 4) \
  ADD_FOR(NAME, T, 8)

BUSBW_ALL_TYPES(ADD)

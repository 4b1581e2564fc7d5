// Entry points of all-reduce, residual and RMSNorm in one.
#include "library/gpu/kernels/norm.h"

#include "library/gpu/kernels/instances.h"

using busbw::Bfloat16;
using busbw::Half;

#define NORM_ENTRY(THREADS, NAME, ...)                                                                                 \
  extern "C" __global__ void __launch_bounds__(THREADS, 1) NAME(const __grid_constant__ busbw::gpu::NormArguments n) { \
    busbw::gpu::__VA_ARGS__(n);                                                                                        \
  }
#define NORM(NAME, T)                                                  \
  NORM_ENTRY(512, busbw_norm_one_shot_##NAME##_2, norm_one_shot<T, 2>) \
  NORM_ENTRY(512, busbw_norm_one_shot_##NAME##_4, norm_one_shot<T, 4>) \
  NORM_ENTRY(512, busbw_norm_one_shot_##NAME##_8, norm_one_shot<T, 8>) \
  NORM_ENTRY(512, busbw_norm_two_shot_##NAME##_2, norm_two_shot<T, 2>) \
  NORM_ENTRY(512, busbw_norm_two_shot_##NAME##_4, norm_two_shot<T, 4>) \
  NORM_ENTRY(512, busbw_norm_two_shot_##NAME##_8, norm_two_shot<T, 8>) \
  NORM_ENTRY(512, busbw_norm_alone_##NAME, norm_alone<T>)

BUSBW_FLOAT_TYPES(NORM)

// Entry points of the slim kernels: one warp a block, and no more registers than a product leaves.
#include "library/gpu/kernels/instances.h"

// Before Hopper there are no copies in bulk, and no product that holds a multiprocessor for long.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#include "library/gpu/kernels/slim.h"

using busbw::Bfloat16;
using busbw::Half;
using busbw::gpu::Bulk;

#define SLIM_MEMORY                                                   \
  __shared__ __align__(128) unsigned char memory[Bulk::bytes_of_all]; \
  __shared__ std::uint64_t barriers[Bulk::most_stages];

#define SLIM_ADD_FOR(NAME, T, MOST)                                                        \
  extern "C" __global__ void __maxnreg__(32)                                               \
      busbw_slim_add_##NAME##_##MOST(const __grid_constant__ busbw::gpu::AddArguments a) { \
    SLIM_MEMORY                                                                            \
    busbw::gpu::slim_add<T, MOST>(a, Bulk(memory, barriers));                              \
  }
#define SLIM_ADD(NAME, T)  \
  SLIM_ADD_FOR(NAME, T, 2) \
  SLIM_ADD_FOR(NAME, T, 4) \
  SLIM_ADD_FOR(NAME, T, 8)

BUSBW_FLOAT_TYPES(SLIM_ADD)

extern "C" __global__ void __maxnreg__(32) busbw_slim_copy(const __grid_constant__ busbw::gpu::CopyArguments a) {
  SLIM_MEMORY
  Bulk bulk(memory, barriers);
  if (threadIdx.x == 0) bulk.move(a.to, a.also, a.from, std::uint32_t(a.bytes), blockIdx.x, gridDim.x);
}
#endif

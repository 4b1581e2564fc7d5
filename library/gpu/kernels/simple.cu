// Entry points of the Simple protocol.
#include "library/gpu/kernels/simple.h"

#include "library/gpu/kernels/instances.h"

using busbw::Bfloat16;
using busbw::F8e4m3;
using busbw::F8e5m2;
using busbw::Half;

#define TWO_SHOT(NAME, T) BUSBW_KERNEL(2, busbw_all_reduce_two_shot_simple_##NAME, all_reduce_two_shot_simple<T>)
#define REDUCE_SCATTER(NAME, T) BUSBW_KERNEL(2, busbw_reduce_scatter_direct_simple_##NAME, reduce_scatter_simple<T>)

BUSBW_ALL_TYPES(TWO_SHOT)
BUSBW_ALL_TYPES(REDUCE_SCATTER)
BUSBW_KERNEL(2, busbw_all_gather_direct_simple, all_gather_simple)
BUSBW_KERNEL(2, busbw_all_to_all_direct_simple, all_to_all_simple)
BUSBW_KERNEL(2, busbw_broadcast_scatter_forward_simple, broadcast_simple)

// Entry points of the Simple protocol.
#include "library/gpu/kernels/simple.h"

#include "library/gpu/kernels/instances.h"

using busbw::Bfloat16;
using busbw::F8e4m3;
using busbw::F8e5m2;
using busbw::Half;

#define TWO_SHOT(NAME, T) BUSBW_REDUCTION(2, all_reduce_two_shot_simple_##NAME, all_reduce_two_shot_simple, T)
#define REDUCE_SCATTER(NAME, T) BUSBW_REDUCTION(2, reduce_scatter_direct_simple_##NAME, reduce_scatter_simple, T)

BUSBW_ALL_TYPES(TWO_SHOT)
BUSBW_ALL_TYPES(REDUCE_SCATTER)
BUSBW_MOVE(2, all_gather_direct_simple, all_gather_simple)
BUSBW_MOVE(2, all_to_all_direct_simple, all_to_all_simple)
BUSBW_MOVE(2, broadcast_scatter_forward_simple, broadcast_simple)

// Entry points of the LL protocol.
#include "library/gpu/kernels/ll.h"

#include "library/gpu/kernels/instances.h"

using busbw::Bfloat16;
using busbw::F8e4m3;
using busbw::F8e5m2;
using busbw::Half;

#define ONE_SHOT(NAME, T) BUSBW_REDUCTION(1, all_reduce_one_shot_ll_##NAME, all_reduce_one_shot_ll, T)
#define TWO_SHOT(NAME, T) BUSBW_REDUCTION(1, all_reduce_two_shot_ll_##NAME, all_reduce_two_shot_ll, T)
#define REDUCE_SCATTER(NAME, T) BUSBW_REDUCTION(1, reduce_scatter_direct_ll_##NAME, reduce_scatter_ll, T)

BUSBW_ALL_TYPES(ONE_SHOT)
BUSBW_ALL_TYPES(TWO_SHOT)
BUSBW_ALL_TYPES(REDUCE_SCATTER)
BUSBW_MOVE(1, all_gather_direct_ll, all_gather_ll)
BUSBW_MOVE(1, all_to_all_direct_ll, all_to_all_ll)
BUSBW_MOVE(1, broadcast_direct_ll, broadcast_ll)

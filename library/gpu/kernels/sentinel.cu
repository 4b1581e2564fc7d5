// Entry points of the sentinel protocol.
#include "library/gpu/kernels/sentinel.h"

#include "library/gpu/kernels/instances.h"
#include "library/gpu/kernels/sentinel_direct.h"

using busbw::Bfloat16;
using busbw::F8e4m3;
using busbw::F8e5m2;
using busbw::Half;

#define TWO_SHOT(NAME, T) BUSBW_REDUCTION(2, all_reduce_two_shot_sentinel_##NAME, all_reduce_two_shot_sentinel, T)
#define REDUCE_SCATTER(NAME, T) BUSBW_REDUCTION(2, reduce_scatter_direct_sentinel_##NAME, reduce_scatter_sentinel, T)

BUSBW_FLOAT_TYPES(TWO_SHOT)
BUSBW_FLOAT_TYPES(REDUCE_SCATTER)
BUSBW_MOVE(2, all_gather_direct_sentinel, all_gather_sentinel)
BUSBW_MOVE(2, all_to_all_direct_sentinel, all_to_all_sentinel)
BUSBW_MOVE(2, broadcast_direct_sentinel, broadcast_sentinel)

// Entry points of the sentinel protocol.
#include "library/gpu/kernels/sentinel.h"

#include "library/gpu/kernels/instances.h"

using busbw::Bfloat16;
using busbw::F8e4m3;
using busbw::F8e5m2;
using busbw::Half;

#define TWO_SHOT(NAME, T) BUSBW_REDUCTION(2, all_reduce_two_shot_sentinel_##NAME, all_reduce_two_shot_sentinel, T)

BUSBW_FLOAT_TYPES(TWO_SHOT)

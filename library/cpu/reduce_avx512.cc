// The reduction kernels for x86-64 with AVX-512 F, BW, DQ and VL.
#include "library/cpu/reduce.h"

#include "busbw/float_formats.h"
#include "library/cpu/copy.h"

#if defined(__x86_64__)
#include <immintrin.h>

#pragma GCC target("avx2,f16c,avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")
#define BUSBW_HAS_F16C 1
#define BUSBW_ISA isa_avx512
#include "library/cpu/reduce_kernels.inc"
#endif

// The reduction kernels for x86-64 with AVX2 and F16C.
#include "library/cpu/reduce.h"

#include "busbw/float_formats.h"
#include "library/cpu/copy.h"

#if defined(__x86_64__)
#include <immintrin.h>

#pragma GCC target("avx2,f16c")
#define BUSBW_HAS_F16C 1
#define BUSBW_ISA isa_avx2
#include "library/cpu/reduce_kernels.inc"
#endif

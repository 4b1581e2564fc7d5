// The reduction kernels for any machine of the architecture.
#include "library/cpu/reduce.h"

#include "busbw/float_formats.h"
#include "library/cpu/copy.h"

#define BUSBW_HAS_F16C 0
#define BUSBW_ISA isa_baseline
#include "library/cpu/reduce_kernels.inc"

// Filling buffers on x86-64 with AVX2.
#ifdef __x86_64__
#define BUSBW_FILL fill_segment_avx2
#define BUSBW_FILL_TARGET [[gnu::target("avx2"), gnu::flatten]]
#include "engine/platform/host_pattern_loops.inc"
#endif

// Filling buffers with the instructions that every processor of this architecture has.
#define BUSBW_FILL fill_segment_baseline
#define BUSBW_FILL_TARGET [[gnu::flatten]]
#include "engine/platform/host_pattern_loops.inc"

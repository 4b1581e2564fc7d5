/* What libbusbw_gpu.so has beside NCCL's functions, for C and C++. Link it, or find the functions by dlsym in a process
 * that has it preloaded. Results are ncclResult_t; ncclGetLastError has a sentence for each failure. */
#ifndef BUSBW_BUSBW_GPU_H
#define BUSBW_BUSBW_GPU_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* All-reduce, residual and RMSNorm in one kernel, for the layers of tensor-parallel inference. Of `rows` rows of
 * `hidden` elements, on every rank of `comm` (an ncclComm_t):
 *
 *     sum          = the inputs of all ranks, added in fp32 in the order of ranks, rounded to the type
 *     residual_out = sum + residual, in fp32, rounded to the type
 *     output       = residual_out * (1 / sqrt(mean(residual_out^2) + epsilon)) * weight, in fp32, rounded to the type
 *
 * All ranks get the same bits if residual and weight are the same on all. `type` is ncclFloat16, ncclBfloat16 or
 * ncclFloat32; a row has at most 16384 elements and a multiple of 16 bytes; buffers begin at multiples of 16 bytes.
 * `output` may be `input`, `residual_out` may be `residual`; the output must not overlap a residual. `stream` is a
 * cudaStream_t, which a CUDA graph may capture. Not between ncclGroupStart and ncclGroupEnd.
 *
 * Where the rows do not fit into the library's scratch, or NCCL does everything on this communicator, it is an
 * all-reduce into the output and a kernel behind it. */
int busbwAllReduceRmsNorm(const void* input, const void* residual, const void* weight, float epsilon, size_t rows,
                          size_t hidden, int type, void* output, void* residual_out, void* comm, void* stream);

#ifdef __cplusplus
}
#endif

#endif

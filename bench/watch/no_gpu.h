// What calls_cost.c takes of CUDA's runtime, over the one of the tests, which has streams without a GPU.
#pragma once
#include <stdlib.h>

typedef void *cudaStream_t, *cudaGraph_t, *cudaGraphExec_t;
int cudaStreamSynchronize(cudaStream_t stream);
int cudaStreamBeginCapture(cudaStream_t stream, int mode);
int cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
int cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long flags);
int cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream);

enum { cudaStreamCaptureModeThreadLocal = 1, cudaStreamNonBlocking = 1 };

static int cudaSetDevice(int device) { return (void)device, 0; }
static int cudaMalloc(void** memory, size_t bytes) { return (*memory = malloc(bytes)) ? 0 : 2; }
static int cudaMemset(void* memory, int value, size_t bytes) { return (void)memory, (void)value, (void)bytes, 0; }
static int cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return (void)flags, *stream = (void*)0x1000, 0;
}
static int cudaGraphInstantiateWithFlags(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long flags) {
  return cudaGraphInstantiate(made, graph, flags);
}

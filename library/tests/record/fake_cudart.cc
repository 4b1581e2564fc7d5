// A CUDA runtime for tests, which hands everything on to the driver by its exported names, as some runtimes do: a
// launch then passes the recorder twice and counts once.
#include <cstddef>

#define EXPORT extern "C" __attribute__((visibility("default")))

extern "C" {
int cuStreamBeginCapture_v2(const void*, int);
int cuStreamEndCapture(const void*, void**);
int cuStreamSynchronize(const void*);
int cuGraphCreate(void**, unsigned);
int cuGraphInstantiateWithFlags(void**, void*, unsigned long long);
int cuGraphLaunch(void*, const void*);
int cuGraphExecUpdate_v2(void*, void*, void*);
int cuGraphClone(void**, void*);
int cuGraphAddChildGraphNode(void**, void*, const void*, std::size_t, void*);
int cuGraphDestroy(void*);
int cuGraphExecDestroy(void*);
}

EXPORT int cudaStreamBeginCapture(const void* stream, int mode) { return cuStreamBeginCapture_v2(stream, mode); }
EXPORT int cudaStreamEndCapture(const void* stream, void** graph) { return cuStreamEndCapture(stream, graph); }
EXPORT int cudaStreamSynchronize(const void* stream) { return cuStreamSynchronize(stream); }
EXPORT int cudaGraphCreate(void** graph, unsigned flags) { return cuGraphCreate(graph, flags); }
EXPORT int cudaGraphInstantiate(void** made, void* graph, unsigned long long flags) {
  return cuGraphInstantiateWithFlags(made, graph, flags);
}
EXPORT int cudaGraphLaunch(void* executable, const void* stream) { return cuGraphLaunch(executable, stream); }
EXPORT int cudaGraphExecUpdate(void* executable, void* graph, void* result) {
  return cuGraphExecUpdate_v2(executable, graph, result);
}
EXPORT int cudaGraphClone(void** clone, void* graph) { return cuGraphClone(clone, graph); }
EXPORT int cudaGraphAddChildGraphNode(void** node, void* graph, const void* behind, std::size_t count, void* child) {
  return cuGraphAddChildGraphNode(node, graph, behind, count, child);
}
EXPORT int cudaGraphDestroy(void* graph) { return cuGraphDestroy(graph); }
EXPORT int cudaGraphExecDestroy(void* executable) { return cuGraphExecDestroy(executable); }

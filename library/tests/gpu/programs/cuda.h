// The CUDA driver and an NCCL for programs of the tests, both found at run time: such a program is built with a plain
// C++ compiler, and takes whichever library stands in front of NCCL.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "busbw/nccl_abi.h"

namespace programs {

using Stream = ncclStream_t;
using Event = struct CUevent_st*;
using Graph = struct CUgraph_st*;
using GraphExec = struct CUgraphExec_st*;
using Node = struct CUgraphNode_st*;
using Context = struct CUctx_st*;
using Module = struct CUmod_st*;
using Function = struct CUfunc_st*;
using Address = unsigned long long;

enum : int { cuda_success = 0, cuda_not_ready = 600 };
enum : int { capture_global = 0, capture_thread = 1, capture_relaxed = 2 };
enum : unsigned { dependencies_set = 1 };

// member, symbol, parameters: the driver's documented ABI.
#define PROGRAM_CUDA(X)                                                                \
  X(init, cuInit, (unsigned))                                                          \
  X(error_name, cuGetErrorName, (int, const char**))                                   \
  X(device_count, cuDeviceGetCount, (int*))                                            \
  X(device_get, cuDeviceGet, (int*, int))                                              \
  X(context_retain, cuDevicePrimaryCtxRetain, (Context*, int))                         \
  X(context_set, cuCtxSetCurrent, (Context))                                           \
  X(allocate, cuMemAlloc_v2, (Address*, std::size_t))                                  \
  X(release, cuMemFree_v2, (Address))                                                  \
  X(set32, cuMemsetD32Async, (Address, unsigned, std::size_t, Stream))                 \
  X(copy_out, cuMemcpyDtoHAsync_v2, (void*, Address, std::size_t, Stream))             \
  X(copy, cuMemcpyDtoDAsync_v2, (Address, Address, std::size_t, Stream))               \
  X(stream_create, cuStreamCreate, (Stream*, unsigned))                                \
  X(stream_destroy, cuStreamDestroy_v2, (Stream))                                      \
  X(stream_query, cuStreamQuery, (Stream))                                             \
  X(stream_wait, cuStreamWaitEvent, (Stream, Event, unsigned))                         \
  X(event_create, cuEventCreate, (Event*, unsigned))                                   \
  X(event_destroy, cuEventDestroy_v2, (Event))                                         \
  X(event_record, cuEventRecord, (Event, Stream))                                      \
  X(begin_capture, cuStreamBeginCapture_v2, (Stream, int))                             \
  X(end_capture, cuStreamEndCapture, (Stream, Graph*))                                 \
  X(instantiate, cuGraphInstantiateWithFlags, (GraphExec*, Graph, unsigned long long)) \
  X(graph_launch, cuGraphLaunch, (GraphExec, Stream))                                  \
  X(graph_update, cuGraphExecUpdate_v2, (GraphExec, Graph, void*))                     \
  X(exec_destroy, cuGraphExecDestroy, (GraphExec))                                     \
  X(graph_destroy, cuGraphDestroy, (Graph))                                            \
  X(module_load, cuModuleLoadData, (Module*, const void*))                             \
  X(module_function, cuModuleGetFunction, (Function*, Module, const char*))            \
  X(launch, cuLaunchKernel,                                                            \
    (Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void**, void**))

// Null where the driver is older.
#define PROGRAM_NEWER_CUDA(X)                                                                          \
  X(capture_info, cuStreamGetCaptureInfo_v2,                                                           \
    (Stream, int* status, unsigned long long* id, Graph*, const Node** behind, std::size_t* count))    \
  X(capture_edges, cuStreamGetCaptureInfo_v3,                                                          \
    (Stream, int* status, unsigned long long* id, Graph*, const Node** behind, const void** edges,     \
     std::size_t* count))                                                                              \
  X(set_dependencies, cuStreamUpdateCaptureDependencies, (Stream, Node*, std::size_t, unsigned flags)) \
  X(capture_to_graph, cuStreamBeginCaptureToGraph,                                                     \
    (Stream, Graph, const Node* behind, const void* edges, std::size_t, int mode))                     \
  X(graph_create, cuGraphCreate, (Graph*, unsigned))                                                   \
  X(graph_clone, cuGraphClone, (Graph*, Graph))                                                        \
  X(add_child, cuGraphAddChildGraphNode, (Node*, Graph, const Node* behind, std::size_t, Graph child))

struct Cuda {
#define PROGRAM_MEMBER(member, symbol, parameters) int(*member) parameters = nullptr;
  PROGRAM_CUDA(PROGRAM_MEMBER)
  PROGRAM_NEWER_CUDA(PROGRAM_MEMBER)
#undef PROGRAM_MEMBER

  void check(int result, const char* what) const {
    if (result == cuda_success) return;
    const char* name = nullptr;
    error_name(result, &name);
    throw std::runtime_error(std::string(what) + ": " + (name ? name : std::to_string(result)));
  }
};

// Null where there is no driver, or no GPU.
inline const Cuda* find_cuda() {
  static Cuda cuda;
  void* handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!handle) return nullptr;
#define PROGRAM_FIND(member, symbol, parameters)                                 \
  cuda.member = reinterpret_cast<decltype(cuda.member)>(dlsym(handle, #symbol)); \
  if (!cuda.member) return nullptr;
  PROGRAM_CUDA(PROGRAM_FIND)
#undef PROGRAM_FIND
#define PROGRAM_FIND(member, symbol, parameters) \
  cuda.member = reinterpret_cast<decltype(cuda.member)>(dlsym(handle, #symbol));
  PROGRAM_NEWER_CUDA(PROGRAM_FIND)
#undef PROGRAM_FIND
  return &cuda;
}

struct SimulationInfo {  // ncclSimInfo_t
  std::size_t size = sizeof(SimulationInfo);
  unsigned magic = 0x74685283;
  unsigned version = 0;
  float estimated_time = -1;
};

#define PROGRAM_NCCL(X)                                                                                            \
  X(get_version, ncclGetVersion, (int*))                                                                           \
  X(get_unique_id, ncclGetUniqueId, (ncclUniqueId*))                                                               \
  X(init_rank, ncclCommInitRank, (ncclComm_t*, int, ncclUniqueId, int))                                            \
  X(init_rank_config, ncclCommInitRankConfig, (ncclComm_t*, int, ncclUniqueId, int, ncclConfig_t*))                \
  X(split, ncclCommSplit, (ncclComm_t, int, int, ncclComm_t*, ncclConfig_t*))                                      \
  X(abort, ncclCommAbort, (ncclComm_t))                                                                            \
  X(async_error, ncclCommGetAsyncError, (ncclComm_t, ncclResult_t*))                                               \
  X(init_all, ncclCommInitAll, (ncclComm_t*, int, const int*))                                                     \
  X(destroy, ncclCommDestroy, (ncclComm_t))                                                                        \
  X(group_start, ncclGroupStart, ())                                                                               \
  X(group_end, ncclGroupEnd, ())                                                                                   \
  X(simulate_end, ncclGroupSimulateEnd, (SimulationInfo*))                                                         \
  X(mem_alloc, ncclMemAlloc, (void**, std::size_t))                                                                \
  X(mem_free, ncclMemFree, (void*))                                                                                \
  X(window_register, ncclCommWindowRegister, (ncclComm_t, void*, std::size_t, ncclWindow_t*, int))                 \
  X(window_deregister, ncclCommWindowDeregister, (ncclComm_t, ncclWindow_t))                                       \
  X(all_reduce, ncclAllReduce, (const void*, void*, std::size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, Stream)) \
  X(broadcast, ncclBroadcast, (const void*, void*, std::size_t, ncclDataType_t, int, ncclComm_t, Stream))          \
  X(send, ncclSend, (const void*, std::size_t, ncclDataType_t, int, ncclComm_t, Stream))                           \
  X(recv, ncclRecv, (void*, std::size_t, ncclDataType_t, int, ncclComm_t, Stream))                                 \
  X(finalize, ncclCommFinalize, (ncclComm_t))                                                                      \
  X(suspend, ncclCommSuspend, (ncclComm_t, int))                                                                   \
  X(resume, ncclCommResume, (ncclComm_t))                                                                          \
  X(new_product_op, ncclRedOpCreatePreMulSum, (ncclRedOp_t*, void*, ncclDataType_t, int where, ncclComm_t))        \
  X(destroy_op, ncclRedOpDestroy, (ncclRedOp_t, ncclComm_t))                                                       \
  X(all_gather, ncclAllGather, (const void*, void*, std::size_t, ncclDataType_t, ncclComm_t, Stream))              \
  X(reduce, ncclReduce, (const void*, void*, std::size_t, ncclDataType_t, ncclRedOp_t, int, ncclComm_t, Stream))

struct Nccl {
#define PROGRAM_MEMBER(member, symbol, parameters) ncclResult_t(*member) parameters = nullptr;
  PROGRAM_NCCL(PROGRAM_MEMBER)
#undef PROGRAM_MEMBER
  const char* (*last_error)(ncclComm_t) = nullptr;
  bool ours = false;  // busbw's GPU library stands in front
  busbwExplainCall_t* explain = nullptr;

  void check(ncclResult_t result, const char* what) const {
    if (result == ncclSuccess) return;
    throw std::runtime_error(std::string(what) + " gave " + std::to_string(int(result)) + ": " + last_error(nullptr));
  }
};

// The preloaded one, or the file in PROGRAM_NCCL, or the loader's.
inline const Nccl& find_nccl() {
  static Nccl nccl;
  void* handle = RTLD_DEFAULT;
  if (!dlsym(RTLD_DEFAULT, "ncclAllReduce")) {
    const char* file = std::getenv("PROGRAM_NCCL");
    handle = dlopen(file ? file : "libnccl.so.2", RTLD_NOW | RTLD_GLOBAL);
    if (!handle) throw std::runtime_error(dlerror());
  }
#define PROGRAM_FIND(member, symbol, parameters) \
  nccl.member = reinterpret_cast<decltype(nccl.member)>(dlsym(handle, #symbol));
  PROGRAM_NCCL(PROGRAM_FIND)
#undef PROGRAM_FIND
  nccl.last_error = reinterpret_cast<decltype(nccl.last_error)>(dlsym(handle, "ncclGetLastError"));
  nccl.explain = reinterpret_cast<busbwExplainCall_t*>(dlsym(handle, "busbwExplainCall"));
  nccl.ours = nccl.explain != nullptr;
  return nccl;
}

}  // namespace programs

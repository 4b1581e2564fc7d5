// The functions of the CUDA driver that this library calls, found at run time, so that one build runs with and without
// a GPU. Prototypes and enumerators are those of the driver's documented ABI.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "busbw/nccl_abi.h"

namespace busbw::gpu {

using CudaResult = int;
using CudaAddress = unsigned long long;
using CudaContext = struct CUctx_st*;
using CudaModule = struct CUmod_st*;
using CudaFunction = struct CUfunc_st*;
using CudaEvent = struct CUevent_st*;

namespace cuda {
enum : CudaResult {
  success = 0,
  peer_access_already_enabled = 704,
  not_ready = 600,
  not_found = 500,
  stream_capture_implicit = 906,
};
enum Attribute : int {
  multiprocessor_count = 16,
  pci_bus_id = 33,
  pci_device_id = 34,
  pci_domain_id = 50,
  compute_capability_major = 75
};
enum : unsigned { stream_non_blocking = 1, event_default = 0, event_disable_timing = 2 };
enum : unsigned { host_portable = 1, host_device_map = 2 };
enum : unsigned { ipc_lazy_enable_peer_access = 1 };
enum FunctionAttribute : int { most_threads = 0 };
// Of memory that is created, mapped and given to a GPU in separate steps (cuMemCreate).
using AllocationHandle = unsigned long long;
enum : int { posix_file_descriptor = 1 };
enum : int { location_device = 1 };
enum : int { access_both = 3 };  // reading and writing
struct Location {
  int type;
  int id;
};
struct AccessDescription {
  int type;
  int id;
  int flags;
};
enum CaptureStatus : int { capture_none = 0, capture_active = 1, capture_invalidated = 2 };
enum : int { capture_mode_relaxed = 2 };
enum : int { allocation_number = 7 };   // CU_POINTER_ATTRIBUTE_BUFFER_ID
enum : unsigned { wait_external = 1 };  // for an event that is recorded outside of the graph
// Of an object that a graph owns: its end need not be waited for, and the graph takes the caller's reference.
enum : unsigned { no_destructor_sync = 1, graph_takes = 1 };
enum LaunchAttributeId : int { programmatic_stream_serialization = 6 };
// CUlaunchAttribute is an id and 64 bytes of value, 8-byte aligned.
struct LaunchAttribute {
  int id;
  char padding[4];
  alignas(8) unsigned char value[64];
};
struct LaunchConfig {
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  ncclStream_t stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};
// An entry of cuStreamBatchMemOp, which the driver's ABI gives 48 bytes; its value is 32 or 64 bits wide.
enum : unsigned { wait_value_32 = 1, write_value_32 = 2 };
enum : unsigned { wait_until_equal = 1, write_after_all_before = 0 };
struct WordOperation {
  unsigned operation;
  CudaAddress address;
  std::uint64_t value;
  unsigned flags;
  CudaAddress alias;
  std::uint64_t padding;
};
static_assert(sizeof(WordOperation) == 48);
struct Edge {  // CUgraphEdgeData
  unsigned char bytes[8];
};
struct IpcHandle {
  unsigned char bytes[64];
};
struct Uuid {
  unsigned char bytes[16];
};
}  // namespace cuda

#define BUSBW_DRIVER_FUNCTIONS(X)                                                                                     \
  X(init, cuInit, (unsigned flags))                                                                                   \
  X(get_error_name, cuGetErrorName, (CudaResult error, const char** text))                                            \
  X(get_error_string, cuGetErrorString, (CudaResult error, const char** text))                                        \
  X(device_get, cuDeviceGet, (int* device, int ordinal))                                                              \
  X(device_get_name, cuDeviceGetName, (char* name, int length, int device))                                           \
  X(device_get_uuid, cuDeviceGetUuid_v2, (cuda::Uuid * uuid, int device))                                             \
  X(device_get_attribute, cuDeviceGetAttribute, (int* value, cuda::Attribute attribute, int device))                  \
  X(primary_context_retain, cuDevicePrimaryCtxRetain, (CudaContext * context, int device))                            \
  X(context_get_current, cuCtxGetCurrent, (CudaContext * context))                                                    \
  X(context_push, cuCtxPushCurrent_v2, (CudaContext context))                                                         \
  X(context_pop, cuCtxPopCurrent_v2, (CudaContext * context))                                                         \
  X(context_enable_peer_access, cuCtxEnablePeerAccess, (CudaContext peer, unsigned flags))                            \
  X(memory_allocate, cuMemAlloc_v2, (CudaAddress * address, std::size_t bytes))                                       \
  X(memory_free, cuMemFree_v2, (CudaAddress address))                                                                 \
  X(memory_set_32, cuMemsetD32Async, (CudaAddress address, unsigned word, std::size_t words, ncclStream_t stream))    \
  X(host_allocate, cuMemHostAlloc, (void** memory, std::size_t bytes, unsigned flags))                                \
  X(host_free, cuMemFreeHost, (void* memory))                                                                         \
  X(host_device_pointer, cuMemHostGetDevicePointer_v2, (CudaAddress * address, void* memory, unsigned flags))         \
  X(copy_in, cuMemcpyHtoDAsync_v2, (CudaAddress to, const void* from, std::size_t bytes, ncclStream_t stream))        \
  X(copy_out, cuMemcpyDtoHAsync_v2, (void* to, CudaAddress from, std::size_t bytes, ncclStream_t stream))             \
  X(copy_on_device, cuMemcpyDtoDAsync_v2, (CudaAddress to, CudaAddress from, std::size_t bytes, ncclStream_t stream)) \
  X(memory_get_range, cuMemGetAddressRange_v2, (CudaAddress * base, std::size_t* bytes, CudaAddress address))         \
  X(ipc_get_handle, cuIpcGetMemHandle, (cuda::IpcHandle * handle, CudaAddress address))                               \
  X(ipc_open_handle, cuIpcOpenMemHandle_v2, (CudaAddress * address, cuda::IpcHandle handle, unsigned flags))          \
  X(ipc_close_handle, cuIpcCloseMemHandle, (CudaAddress address))                                                     \
  X(stream_create, cuStreamCreate, (ncclStream_t * stream, unsigned flags))                                           \
  X(stream_destroy, cuStreamDestroy_v2, (ncclStream_t stream))                                                        \
  X(stream_query, cuStreamQuery, (ncclStream_t stream))                                                               \
  X(stream_get_priority, cuStreamGetPriority, (ncclStream_t stream, int* priority))                                   \
  X(stream_synchronize, cuStreamSynchronize, (ncclStream_t stream))                                                   \
  X(stream_wait_event, cuStreamWaitEvent, (ncclStream_t stream, CudaEvent event, unsigned flags))                     \
  X(call_host, cuLaunchHostFunc, (ncclStream_t stream, void (*function)(void*), void* data))                          \
  X(event_create, cuEventCreate, (CudaEvent * event, unsigned flags))                                                 \
  X(event_destroy, cuEventDestroy_v2, (CudaEvent event))                                                              \
  X(event_record, cuEventRecord, (CudaEvent event, ncclStream_t stream))                                              \
  X(event_elapsed, cuEventElapsedTime, (float* milliseconds, CudaEvent from, CudaEvent to))                           \
  X(event_query, cuEventQuery, (CudaEvent event))                                                                     \
  X(exchange_capture_mode, cuThreadExchangeStreamCaptureMode, (int* mode))                                            \
  X(module_load_data, cuModuleLoadData, (CudaModule * module, const void* image))                                     \
  X(module_get_function, cuModuleGetFunction, (CudaFunction * function, CudaModule module, const char* name))         \
  X(function_get_attribute, cuFuncGetAttribute, (int* value, cuda::FunctionAttribute which, CudaFunction f))

// Newer than the oldest driver that an NCCL of today runs on: without them we stand back.
#define BUSBW_NEWER_DRIVER_FUNCTIONS(X)                                                                            \
  X(launch, cuLaunchKernelEx,                                                                                      \
    (const cuda::LaunchConfig* config, CudaFunction function, void** parameters, void** extra))                    \
  X(stream_get_capture_info, cuStreamGetCaptureInfo_v2,                                                            \
    (ncclStream_t stream, cuda::CaptureStatus * status, std::uint64_t* id, void* graph, void* dependencies,        \
     void* dependency_count))                                                                                      \
  X(graph_add_event_record, cuGraphAddEventRecordNode,                                                             \
    (void** node, void* graph, void* const* behind, std::size_t count, CudaEvent event))                           \
  X(graph_add_edges, cuGraphAddDependencies, (void* graph, void* const* from, void* const* to, std::size_t count)) \
  X(graph_remove_edges, cuGraphRemoveDependencies,                                                                 \
    (void* graph, void* const* from, void* const* to, std::size_t count))                                          \
  X(user_object_create, cuUserObjectCreate,                                                                        \
    (void** object, void* what, void (*end)(void*), unsigned count, unsigned flags))                               \
  X(graph_retain_user_object, cuGraphRetainUserObject, (void* graph, void* object, unsigned count, unsigned flags))

// Newer still: the library does without.
#define BUSBW_OPTIONAL_DRIVER_FUNCTIONS(X)                                                                             \
  X(stream_get_id, cuStreamGetId, (ncclStream_t stream, unsigned long long* id))                                       \
  X(context_get_id, cuCtxGetId, (CudaContext context, unsigned long long* id))                                         \
  X(node_get_dependencies, cuGraphNodeGetDependencies, (void* node, void** behind, std::size_t* count))                \
  X(node_get_edges, cuGraphNodeGetDependencies_v2, (void* node, void** behind, cuda::Edge* edges, std::size_t* count)) \
  X(stream_get_capture_edges, cuStreamGetCaptureInfo_v3,                                                               \
    (ncclStream_t stream, cuda::CaptureStatus * status, std::uint64_t* id, void* graph, void* dependencies,            \
     void* edges, void* dependency_count))

// Without these, windows of memory of this kind are left to NCCL.
#define BUSBW_RANGE_DRIVER_FUNCTIONS(X)                                                                              \
  X(allocation_retain, cuMemRetainAllocationHandle, (cuda::AllocationHandle * handle, void* address))                \
  X(allocation_release, cuMemRelease, (cuda::AllocationHandle handle))                                               \
  X(allocation_export, cuMemExportToShareableHandle,                                                                 \
    (void* exported, cuda::AllocationHandle handle, int kind, unsigned long long flags))                             \
  X(allocation_import, cuMemImportFromShareableHandle, (cuda::AllocationHandle * handle, void* exported, int kind))  \
  X(address_reserve, cuMemAddressReserve,                                                                            \
    (CudaAddress * address, std::size_t bytes, std::size_t alignment, CudaAddress wanted, unsigned long long flags)) \
  X(address_free, cuMemAddressFree, (CudaAddress address, std::size_t bytes))                                        \
  X(memory_map, cuMemMap,                                                                                            \
    (CudaAddress address, std::size_t bytes, std::size_t offset, cuda::AllocationHandle handle,                      \
     unsigned long long flags))                                                                                      \
  X(memory_unmap, cuMemUnmap, (CudaAddress address, std::size_t bytes))                                              \
  X(memory_set_access, cuMemSetAccess,                                                                               \
    (CudaAddress address, std::size_t bytes, const cuda::AccessDescription* access, std::size_t count))              \
  X(memory_get_access, cuMemGetAccess, (unsigned long long* flags, const cuda::Location* location, CudaAddress address))

// Without these, eager calls by staged copies are put into their streams one by one each time, and peers read nothing
// from the program's own buffers.
#define BUSBW_GRAPH_DRIVER_FUNCTIONS(X)                                                                         \
  X(memory_get_info, cuMemGetInfo_v2, (std::size_t* free, std::size_t* total))                                  \
  X(pointer_get_attribute, cuPointerGetAttribute, (void* value, int attribute, CudaAddress address))            \
  X(stream_begin_capture, cuStreamBeginCapture_v2, (ncclStream_t stream, int mode))                             \
  X(stream_end_capture, cuStreamEndCapture, (ncclStream_t stream, void** graph))                                \
  X(graph_instantiate, cuGraphInstantiateWithFlags, (void** executable, void* graph, unsigned long long flags)) \
  X(graph_launch, cuGraphLaunch, (void* executable, ncclStream_t stream))                                       \
  X(graph_destroy, cuGraphDestroy, (void* graph))                                                               \
  X(graph_exec_destroy, cuGraphExecDestroy, (void* executable))

// Without it, copies between ordinary buffers are left to NCCL.
#define BUSBW_WORD_DRIVER_FUNCTIONS(X)     \
  X(order_by_words, cuStreamBatchMemOp_v2, \
    (ncclStream_t stream, unsigned count, cuda::WordOperation* operations, unsigned flags))

struct Driver {
#define BUSBW_MEMBER(member, name, parameters) CudaResult(*member) parameters = nullptr;
  BUSBW_DRIVER_FUNCTIONS(BUSBW_MEMBER)
  BUSBW_NEWER_DRIVER_FUNCTIONS(BUSBW_MEMBER)
  BUSBW_RANGE_DRIVER_FUNCTIONS(BUSBW_MEMBER)
  BUSBW_OPTIONAL_DRIVER_FUNCTIONS(BUSBW_MEMBER)
  BUSBW_WORD_DRIVER_FUNCTIONS(BUSBW_MEMBER)
  BUSBW_GRAPH_DRIVER_FUNCTIONS(BUSBW_MEMBER)
#undef BUSBW_MEMBER
  // The first of the newer functions that this driver lacks, or null.
  const char* lacks = nullptr;
  const char* lacks_for_ranges = nullptr;
  const char* lacks_for_words = nullptr;
  const char* lacks_for_graphs = nullptr;

  std::string describe(CudaResult error) const;
  // Throws a Failure with ncclUnhandledCudaError.
  void check(CudaResult result, const char* what, int ordinal) const;
};

// Null where this process has no usable driver, with the reason.
const Driver* driver(std::string& why_not);

}  // namespace busbw::gpu

// The functions of the CUDA driver that busbw calls, found at run time, so that one build runs with and without a GPU.
//
// Prototypes and enumerators are declared here from the driver's documented ABI; no CUDA header is needed. Exported
// names carry the version suffix of the ABI they belong to (cuMemAlloc_v2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "busbw/nccl_abi.h"

namespace busbw {

using CudaResult = int;
using CudaDevice = int;
using CudaAddress = unsigned long long;
using CudaContext = struct CUctx_st*;
using CudaModule = struct CUmod_st*;
using CudaFunction = struct CUfunc_st*;
using CudaStream = ncclStream_t;
using CudaEvent = struct CUevent_st*;
using CudaGraph = struct CUgraph_st*;
using CudaGraphExec = struct CUgraphExec_st*;

namespace cuda {
enum : CudaResult {
  success = 0,
  out_of_memory = 2,
  stub_library = 34,
  device_unavailable = 46,
  no_device = 100,
  invalid_image = 200,
  no_binary_for_gpu = 209,
  unsupported_ptx_version = 222,
  not_ready = 600,
  system_not_ready = 802,
  system_driver_mismatch = 803,
  compatibility_not_supported = 804,
};
enum Attribute : int {
  multiprocessor_count = 16,
  pci_bus_id = 33,
  pci_device_id = 34,
  pci_domain_id = 50,
  capability_major = 75,
  capability_minor = 76,
};
enum : unsigned { stream_non_blocking = 1 };
enum CaptureMode : int { capture_thread_local = 1 };
}  // namespace cuda

struct CudaDriver {
  CudaResult (*init)(unsigned flags);
  CudaResult (*driver_get_version)(int* version);
  CudaResult (*get_error_name)(CudaResult error, const char** text);
  CudaResult (*get_error_string)(CudaResult error, const char** text);

  CudaResult (*device_get_count)(int* count);
  CudaResult (*device_get)(CudaDevice* device, int ordinal);
  CudaResult (*device_get_name)(char* name, int length, CudaDevice device);
  CudaResult (*device_get_attribute)(int* value, cuda::Attribute attribute, CudaDevice device);
  CudaResult (*device_total_memory)(std::size_t* bytes, CudaDevice device);
  CudaResult (*primary_context_retain)(CudaContext* context, CudaDevice device);
  CudaResult (*primary_context_release)(CudaDevice device);
  CudaResult (*context_set_current)(CudaContext context);

  CudaResult (*memory_allocate)(CudaAddress* address, std::size_t bytes);
  CudaResult (*memory_free)(CudaAddress address);
  CudaResult (*memory_get_info)(std::size_t* free, std::size_t* total);
  CudaResult (*host_memory_allocate)(void** address, std::size_t bytes);
  CudaResult (*host_memory_free)(void* address);
  CudaResult (*memset_bytes_async)(CudaAddress to, unsigned char value, std::size_t count, CudaStream stream);
  CudaResult (*copy_on_device_async)(CudaAddress to, CudaAddress from, std::size_t bytes, CudaStream stream);
  CudaResult (*copy_to_host_async)(void* to, CudaAddress from, std::size_t bytes, CudaStream stream);

  CudaResult (*stream_create)(CudaStream* stream, unsigned flags);
  CudaResult (*stream_destroy)(CudaStream stream);
  CudaResult (*stream_query)(CudaStream stream);
  CudaResult (*stream_synchronize)(CudaStream stream);
  CudaResult (*stream_begin_capture)(CudaStream stream, cuda::CaptureMode mode);
  CudaResult (*stream_end_capture)(CudaStream stream, CudaGraph* graph);

  CudaResult (*graph_instantiate)(CudaGraphExec* exec, CudaGraph graph, unsigned long long flags);
  CudaResult (*graph_launch)(CudaGraphExec exec, CudaStream stream);
  CudaResult (*graph_exec_destroy)(CudaGraphExec exec);
  CudaResult (*graph_destroy)(CudaGraph graph);

  CudaResult (*event_create)(CudaEvent* event, unsigned flags);
  CudaResult (*event_destroy)(CudaEvent event);
  CudaResult (*event_record)(CudaEvent event, CudaStream stream);
  CudaResult (*event_elapsed_time)(float* milliseconds, CudaEvent from, CudaEvent to);

  CudaResult (*module_load_data)(CudaModule* module, const void* image);
  CudaResult (*module_unload)(CudaModule module);
  CudaResult (*module_get_function)(CudaFunction* function, CudaModule module, const char* name);
  CudaResult (*launch_kernel)(CudaFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                              unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                              CudaStream stream, void** parameters, void** extra);

  // "CUDA_ERROR_NO_DEVICE (no CUDA-capable device is detected)".
  std::string describe(CudaResult error) const;

  // Throws Error(cuda) for anything but success. `where` names the device.
  void check(CudaResult result, const char* call, const std::string& where) const {
    if (result != cuda::success) fail(result, call, where);
  }
  [[noreturn]] void fail(CudaResult result, const char* call, const std::string& where) const;
};

// The driver of this machine, loaded and initialised once. Null where there is none that can be used, and then
// `why_not` is a sentence with the reason and what to try.
const CudaDriver* cuda_driver(std::string& why_not);

}  // namespace busbw

// Loading the CUDA driver, and saying why that cannot be done on this machine.
#include "engine/platform/cuda_driver.h"

#include <dlfcn.h>

#include <cstdlib>

#include "engine/core/error.h"

namespace busbw {
namespace {

struct Symbol {
  const char* name;
  void** slot;
};

template <typename Function>
Symbol symbol(const char* name, Function*& slot) {
  return {name, reinterpret_cast<void**>(&slot)};
}

// The first symbol that the driver lacks, or null.
const char* find_all(void* handle, CudaDriver& d) {
  const Symbol symbols[] = {
      symbol("cuInit", d.init),
      symbol("cuDriverGetVersion", d.driver_get_version),
      symbol("cuGetErrorName", d.get_error_name),
      symbol("cuGetErrorString", d.get_error_string),
      symbol("cuDeviceGetCount", d.device_get_count),
      symbol("cuDeviceGet", d.device_get),
      symbol("cuDeviceGetName", d.device_get_name),
      symbol("cuDeviceGetAttribute", d.device_get_attribute),
      symbol("cuDeviceTotalMem_v2", d.device_total_memory),
      symbol("cuDevicePrimaryCtxRetain", d.primary_context_retain),
      symbol("cuDevicePrimaryCtxRelease_v2", d.primary_context_release),
      symbol("cuCtxSetCurrent", d.context_set_current),
      symbol("cuMemAlloc_v2", d.memory_allocate),
      symbol("cuMemFree_v2", d.memory_free),
      symbol("cuMemGetInfo_v2", d.memory_get_info),
      symbol("cuMemAllocHost_v2", d.host_memory_allocate),
      symbol("cuMemFreeHost", d.host_memory_free),
      symbol("cuMemsetD8Async", d.memset_bytes_async),
      symbol("cuMemcpyDtoDAsync_v2", d.copy_on_device_async),
      symbol("cuMemcpyDtoHAsync_v2", d.copy_to_host_async),
      symbol("cuStreamCreate", d.stream_create),
      symbol("cuStreamDestroy_v2", d.stream_destroy),
      symbol("cuStreamQuery", d.stream_query),
      symbol("cuStreamSynchronize", d.stream_synchronize),
      symbol("cuStreamBeginCapture_v2", d.stream_begin_capture),
      symbol("cuStreamEndCapture", d.stream_end_capture),
      symbol("cuGraphInstantiateWithFlags", d.graph_instantiate),
      symbol("cuGraphLaunch", d.graph_launch),
      symbol("cuGraphExecDestroy", d.graph_exec_destroy),
      symbol("cuGraphDestroy", d.graph_destroy),
      symbol("cuEventCreate", d.event_create),
      symbol("cuEventDestroy_v2", d.event_destroy),
      symbol("cuEventRecord", d.event_record),
      symbol("cuEventElapsedTime", d.event_elapsed_time),
      symbol("cuModuleLoadData", d.module_load_data),
      symbol("cuModuleUnload", d.module_unload),
      symbol("cuModuleGetFunction", d.module_get_function),
      symbol("cuLaunchKernel", d.launch_kernel),
  };
  for (const Symbol& s : symbols) {
    *s.slot = dlsym(handle, s.name);
    if (*s.slot == nullptr) return s.name;
  }
  return nullptr;
}

std::string visible_devices_hint() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr) return "see whether nvidia-smi lists a GPU";
  return format("CUDA_VISIBLE_DEVICES is '%s'; unset it or list GPUs that nvidia-smi -L shows", visible);
}

std::string explain_init(const CudaDriver& driver, CudaResult result) {
  const std::string error = driver.describe(result);
  switch (result) {
    case cuda::no_device:
      return "the CUDA driver sees no GPU; " + visible_devices_hint();
    case cuda::stub_library:
      return "libcuda.so.1 is the stub of the CUDA toolkit, not a driver; take the toolkit's stubs folder out of "
             "LD_LIBRARY_PATH";
    case cuda::system_driver_mismatch:
    case cuda::compatibility_not_supported:
      return error +
             ": the driver's library and its kernel module differ; take any CUDA compat folder out of "
             "LD_LIBRARY_PATH, or reload the kernel module";
    case cuda::system_not_ready:
      return error +
             ": on machines with NVSwitch the fabric manager must run; try systemctl status "
             "nvidia-fabricmanager";
    default:
      return "cuInit says " + error + "; see whether nvidia-smi works";
  }
}

struct Loaded {
  CudaDriver driver{};
  std::string why_not;
};

Loaded load() {
  Loaded loaded;
  // Never closed: the driver keeps threads and exit handlers.
  void* handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = dlerror();
    loaded.why_not = format("no NVIDIA driver on this machine (%s); in a container, start it with GPU access",
                            reason != nullptr ? reason : "libcuda.so.1 did not load");
    return loaded;
  }
  if (const char* missing = find_all(handle, loaded.driver)) {
    loaded.why_not = format(
        "the NVIDIA driver is too old: it has no %s, which CUDA 11.4 brought; update the driver to "
        "470 or newer",
        missing);
    return loaded;
  }
  const CudaResult result = loaded.driver.init(0);
  if (result != cuda::success) loaded.why_not = explain_init(loaded.driver, result);
  return loaded;
}

}  // namespace

std::string CudaDriver::describe(CudaResult error) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (get_error_name(error, &name) != cuda::success || name == nullptr) return format("CUDA error %d", error);
  if (get_error_string(error, &text) != cuda::success || text == nullptr) return name;
  return format("%s (%s)", name, text);
}

void CudaDriver::fail(CudaResult result, const char* call, const std::string& where) const {
  const char* advice = result == cuda::out_of_memory
                           ? "; try a smaller -e, or see with nvidia-smi who else uses this GPU"
                       : result == cuda::device_unavailable ? "; another process may hold it in exclusive mode"
                                                            : "";
  throw Error(ExitCode::cuda,
              format("%s on %s failed with %s%s", call, where.c_str(), describe(result).c_str(), advice));
}

const CudaDriver* cuda_driver(std::string& why_not) {
  static const Loaded loaded = load();
  if (loaded.why_not.empty()) return &loaded.driver;
  why_not = loaded.why_not;
  return nullptr;
}

}  // namespace busbw

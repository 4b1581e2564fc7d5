// One GPU through the CUDA driver: what it is, its memory, and ranges of it that other processes open.
#include "library/gpu/cuda/cuda_device.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "library/common/failure.h"
#include "library/gpu/cuda/current.h"
#include "library/gpu/cuda/image.h"

namespace busbw::gpu {

CudaDevice::CudaDevice(const Driver& driver, int ordinal) : driver_(driver) {
  facts_.ordinal = ordinal;
  check(driver_.device_get(&device_, ordinal), "cuDeviceGet");
  // Kept until the process ends, as NCCL and CUDA's runtime do.
  check(driver_.primary_context_retain(&context_, device_), "cuDevicePrimaryCtxRetain");
  context_id_ = id_of(context_);
  const Aside aside(*this);
  learn_facts(device_);
  check(driver_.stream_create(&stream_, cuda::stream_non_blocking), "cuStreamCreate");
  if (driver_.lacks) {
    why_not_ = text("the NVIDIA driver is too old (it has no %s)", driver_.lacks);
    return;
  }
  load_kernels();
}

unsigned long long CudaDevice::id_of(CudaContext context) const {
  unsigned long long id = 0;
  if (!driver_.context_get_id || driver_.context_get_id(context, &id) != cuda::success) return 0;
  return id;
}

bool CudaDevice::lives() const {
  if (context_id_ == 0) return true;
  CudaContext now = nullptr;
  // Once more for each communicator: it is kept until the process ends anyway.
  if (driver_.primary_context_retain(&now, device_) != cuda::success) return true;
  return now == context_ && id_of(now) == context_id_;
}

void CudaDevice::check(CudaResult result, const char* what) const { driver_.check(result, what, facts_.ordinal); }

void CudaDevice::learn_facts(int device) {
  char name[256] = "";
  check(driver_.device_get_name(name, sizeof name, device), "cuDeviceGetName");
  facts_.name = name;
  cuda::Uuid uuid{};
  check(driver_.device_get_uuid(&uuid, device), "cuDeviceGetUuid");
  std::copy(std::begin(uuid.bytes), std::end(uuid.bytes), facts_.uuid.begin());
  const auto attribute = [&](cuda::Attribute which) {
    int value = 0;
    check(driver_.device_get_attribute(&value, which, device), "cuDeviceGetAttribute");
    return value;
  };
  facts_.bus_id = text("%04x:%02x:%02x.0", unsigned(attribute(cuda::pci_domain_id)),
                       unsigned(attribute(cuda::pci_bus_id)), unsigned(attribute(cuda::pci_device_id)));
  facts_.multiprocessors = attribute(cuda::multiprocessor_count);
  overlaps_ = attribute(cuda::compute_capability_major) >= 9;
}

void* CudaDevice::allocate(std::size_t bytes) {
  const Aside aside(*this);
  CudaAddress memory = 0;
  check(driver_.memory_allocate(&memory, bytes), text("allocating %zu bytes", bytes).c_str());
  fill(pointer(memory), 0, bytes);
  return pointer(memory);
}

void CudaDevice::fill(void* memory, std::uint32_t word, std::size_t bytes) {
  const Aside aside(*this);
  check(driver_.memory_set_32(address(memory), word, bytes / 4, stream_), "cuMemsetD32Async");
  check(driver_.stream_synchronize(stream_), "cuStreamSynchronize");
}

void CudaDevice::release(void* memory) noexcept {
  const Aside aside(*this);
  if (memory) driver_.memory_free(address(memory));
}

HostMemory CudaDevice::allocate_host(std::size_t bytes) {
  const Aside aside(*this);
  HostMemory memory;
  check(driver_.host_allocate(&memory.host, bytes, cuda::host_portable | cuda::host_device_map), "cuMemHostAlloc");
  std::memset(memory.host, 0, bytes);
  CudaAddress on_device = 0;
  check(driver_.host_device_pointer(&on_device, memory.host, 0), "cuMemHostGetDevicePointer");
  memory.device = pointer(on_device);
  return memory;
}

void CudaDevice::release(const HostMemory& memory) noexcept {
  const Aside aside(*this);
  if (memory.host) driver_.host_free(memory.host);
}

MemoryHandle CudaDevice::share(void* memory) {
  const Aside aside(*this);
  cuda::IpcHandle handle{};
  check(driver_.ipc_get_handle(&handle, address(memory)), "cuIpcGetMemHandle");
  MemoryHandle result{};
  static_assert(sizeof result == sizeof handle);
  std::memcpy(result.bytes, handle.bytes, sizeof handle.bytes);
  return result;
}

void* CudaDevice::open(const MemoryHandle& handle) {
  const Aside aside(*this);
  cuda::IpcHandle theirs{};
  std::memcpy(theirs.bytes, handle.bytes, sizeof theirs.bytes);
  CudaAddress opened = 0;
  check(driver_.ipc_open_handle(&opened, theirs, cuda::ipc_lazy_enable_peer_access), "cuIpcOpenMemHandle");
  return pointer(opened);
}

void CudaDevice::close(void* opened) noexcept {
  const Aside aside(*this);
  if (opened) driver_.ipc_close_handle(address(opened));
}

void CudaDevice::reach(int peer_ordinal) {
  int peer = 0;
  check(driver_.device_get(&peer, peer_ordinal), "cuDeviceGet");
  CudaContext context = nullptr;
  // The peer's rank retains it as well, for good.
  check(driver_.primary_context_retain(&context, peer), "cuDevicePrimaryCtxRetain");
  const Aside aside(*this);
  const CudaResult result = driver_.context_enable_peer_access(context, 0);
  if (result != cuda::peer_access_already_enabled) check(result, "cuCtxEnablePeerAccess");
}

void CudaDevice::copy_in(void* to, const void* from_host, std::size_t bytes, DeviceStream stream) {
  const Current current(*this);
  check(driver_.copy_in(address(to), from_host, bytes, stream), "cuMemcpyHtoDAsync");
}

void CudaDevice::copy_out(void* to_host, const void* from, std::size_t bytes, DeviceStream stream) {
  const Current current(*this);
  check(driver_.copy_out(to_host, address(from), bytes, stream), "cuMemcpyDtoHAsync");
}

void CudaDevice::copy(void* to, const void* from, std::size_t bytes, DeviceStream stream) {
  const Current current(*this);
  check(driver_.copy_on_device(address(to), address(from), bytes, stream), "cuMemcpyDtoDAsync");
}

// Ranges of the program's memory
// ---------------------------------------------------------------------------------------------------

void CudaDevice::check_range_functions() const {
  if (driver_.lacks_for_ranges) {
    throw Failure(ncclUnhandledCudaError,
                  text("the NVIDIA driver is too old (it has no %s)", driver_.lacks_for_ranges));
  }
}

RangeHandle CudaDevice::share_range(const void* memory, std::size_t bytes, Descriptor& descriptor) {
  check_range_functions();
  const Aside aside(*this);
  CudaAddress base = 0;
  RangeHandle range{};
  std::size_t allocation = 0;
  check(driver_.memory_get_range(&base, &allocation, address(memory)), "cuMemGetAddressRange");
  range.offset = address(memory) - base;
  range.allocation = allocation;
  if (range.offset + bytes > range.allocation) {
    throw Failure(ncclInvalidUsage, "the window goes over the end of its allocation");
  }
  cuda::AllocationHandle allocated = 0;
  if (driver_.allocation_retain(&allocated, const_cast<void*>(memory)) == cuda::success) {
    range.by_descriptor = 1;
    int file = -1;
    const CudaResult result = driver_.allocation_export(&file, allocated, cuda::posix_file_descriptor, 0);
    driver_.allocation_release(allocated);
    check(result, "cuMemExportToShareableHandle");
    descriptor = Descriptor(file);
  } else {
    range.handle = share(pointer(base));
  }
  return range;
}

void* CudaDevice::open_range(const RangeHandle& range, const Descriptor& descriptor) {
  if (!range.by_descriptor) return open(range.handle);
  check_range_functions();
  const Aside aside(*this);
  cuda::AllocationHandle allocated = 0;
  check(driver_.allocation_import(&allocated, reinterpret_cast<void*>(std::intptr_t(descriptor.get())),
                                  cuda::posix_file_descriptor),
        "cuMemImportFromShareableHandle");
  CudaAddress opened = 0;
  CudaResult result = driver_.address_reserve(&opened, range.allocation, 0, 0, 0);
  if (result == cuda::success) {
    result = driver_.memory_map(opened, range.allocation, 0, allocated, 0);
    if (result == cuda::success) {
      const cuda::AccessDescription access{.type = cuda::location_device, .id = device_, .flags = cuda::access_both};
      result = driver_.memory_set_access(opened, range.allocation, &access, 1);
      if (result != cuda::success) driver_.memory_unmap(opened, range.allocation);
    }
    if (result != cuda::success) driver_.address_free(opened, range.allocation);
  }
  // The mapping keeps the memory.
  driver_.allocation_release(allocated);
  check(result, "mapping a peer's memory (cuMemMap, cuMemSetAccess)");
  return pointer(opened);
}

void CudaDevice::close_range(const RangeHandle& range, void* opened) noexcept {
  if (!range.by_descriptor) return close(opened);
  const Aside aside(*this);
  driver_.memory_unmap(address(opened), range.allocation);
  driver_.address_free(address(opened), range.allocation);
}

void CudaDevice::check_reach(const void* memory) {
  check_range_functions();
  const Aside aside(*this);
  const cuda::Location location{.type = cuda::location_device, .id = device_};
  unsigned long long flags = 0;
  check(driver_.memory_get_access(&flags, &location, address(memory)), "cuMemGetAccess");
  if (flags != cuda::access_both) {
    throw Failure(ncclUnhandledCudaError,
                  text("GPU %d has no access to a window of a peer in the same process", facts_.ordinal));
  }
}

namespace {

class CudaDevices : public Devices {
 public:
  std::string why_none() override {
    if (gpu_kernel_image_count() == 0) return "this library was built without a CUDA compiler";
    std::string why_not;
    return driver(why_not) ? "" : why_not;
  }

  std::shared_ptr<Device> open(int ordinal) override {
    const std::lock_guard lock(guard_);
    std::shared_ptr<CudaDevice>& device = opened_[ordinal];
    if (!device || !device->lives()) {
      std::string why_not;
      const Driver* loaded = driver(why_not);
      if (!loaded) throw Failure(ncclSystemError, why_not);
      device = std::make_shared<CudaDevice>(*loaded, ordinal);
    }
    return device;
  }

  int exchange_capture_mode(int mode) override {
    std::string why_not;
    const Driver* loaded = driver(why_not);
    if (loaded) loaded->exchange_capture_mode(&mode);
    return mode;
  }

 private:
  std::mutex guard_;
  std::map<int, std::shared_ptr<CudaDevice>> opened_;
};

}  // namespace

Devices& cuda_devices() {
  // Never destroyed: threads of ours may still give memory back while the process ends.
  static auto* all = new CudaDevices;
  return *all;
}

}  // namespace busbw::gpu

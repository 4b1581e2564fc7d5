// A CUDA driver without a GPU: memory is the host's, streams are empty, kernels are taken and not run. Tests only.
//
// Loaded as libcuda.so.1 from a folder of its own, it lets the engine's GPU side run from end to end on any machine:
// which calls are made, in which order, with which results. BUSBW_TEST_GPUS is how many GPUs there are (default 2),
// BUSBW_TEST_OPEN_MS how long making a context takes.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using Address = unsigned long long;

int setting(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : otherwise;
}

void* at(Address address) { return reinterpret_cast<void*>(address); }
// Handles are never looked into.
void* some_handle() {
  static char handle;
  return &handle;
}

}  // namespace

EXPORT int cuInit(unsigned) { return 0; }
EXPORT int cuDriverGetVersion(int* version) { return *version = 99000, 0; }
EXPORT int cuGetErrorName(int, const char** text) { return *text = "CUDA_ERROR_OF_A_TEST", 0; }
EXPORT int cuGetErrorString(int, const char** text) { return *text = "of a test", 0; }
EXPORT int cuDeviceGetCount(int* count) { return *count = setting("BUSBW_TEST_GPUS", 2), 0; }
EXPORT int cuDeviceGet(int* device, int ordinal) { return *device = ordinal, 0; }
EXPORT int cuDeviceGetName(char* name, int length, int) { return std::snprintf(name, length, "Test GPU"), 0; }
EXPORT int cuDeviceGetAttribute(int* value, int attribute, int device) {
  switch (attribute) {
    case 16:  // multiprocessors
      return *value = 4, 0;
    case 33:  // bus
      return *value = 0x10 + device, 0;
    case 75:  // capability
      return *value = 9, 0;
    default:
      return *value = 0, 0;
  }
}
EXPORT int cuDeviceTotalMem_v2(std::size_t* bytes, int) { return *bytes = std::size_t{16} << 30, 0; }
EXPORT int cuDevicePrimaryCtxRetain(void** context, int) {
  usleep(static_cast<useconds_t>(1000 * setting("BUSBW_TEST_OPEN_MS", 0)));
  return *context = some_handle(), 0;
}
EXPORT int cuDevicePrimaryCtxRelease_v2(int) { return 0; }
EXPORT int cuCtxSetCurrent(void*) { return 0; }
// For the recorder's times; its test of the device knows none here.
EXPORT int cuCtxGetCurrent(void** context) { return *context = some_handle(), 0; }
EXPORT int cuCtxGetDevice(int* device) { return *device = 0, 0; }
EXPORT int cuStreamGetCtx(void*, void** context) { return *context = some_handle(), 0; }
EXPORT int cuStreamIsCapturing(void*, int* status) { return *status = 0, 0; }
EXPORT int cuThreadExchangeStreamCaptureMode(int*) { return 0; }
EXPORT int cuEventQuery(void*) { return 0; }
EXPORT int cuMemAlloc_v2(Address* address, std::size_t bytes) {
  void* memory = std::calloc(1, bytes);
  *address = reinterpret_cast<Address>(memory);
  return memory == nullptr ? 2 : 0;
}
EXPORT int cuMemFree_v2(Address address) { return std::free(at(address)), 0; }
EXPORT int cuMemGetInfo_v2(std::size_t* free, std::size_t* total) { return *free = *total = std::size_t{16} << 30, 0; }
EXPORT int cuMemAllocHost_v2(void** address, std::size_t bytes) { return *address = std::calloc(1, bytes), 0; }
EXPORT int cuMemFreeHost(void* address) { return std::free(address), 0; }
EXPORT int cuMemsetD8Async(Address to, unsigned char value, std::size_t count, void*) {
  return std::memset(at(to), value, count), 0;
}
EXPORT int cuMemcpyDtoDAsync_v2(Address to, Address from, std::size_t bytes, void*) {
  return std::memcpy(at(to), at(from), bytes), 0;
}
EXPORT int cuMemcpyHtoDAsync_v2(Address to, const void* from, std::size_t bytes, void*) {
  return std::memcpy(at(to), from, bytes), 0;
}
EXPORT int cuMemcpyDtoHAsync_v2(void* to, Address from, std::size_t bytes, void*) {
  return std::memcpy(to, at(from), bytes), 0;
}
EXPORT int cuStreamCreate(void** stream, unsigned) { return *stream = some_handle(), 0; }
EXPORT int cuStreamDestroy_v2(void*) { return 0; }
EXPORT int cuStreamQuery(void*) { return 0; }
EXPORT int cuStreamSynchronize(void*) { return 0; }
EXPORT int cuStreamBeginCapture_v2(void*, int) { return 0; }
EXPORT int cuStreamEndCapture(void*, void** graph) { return *graph = some_handle(), 0; }
EXPORT int cuGraphInstantiateWithFlags(void** exec, void*, unsigned long long) { return *exec = some_handle(), 0; }
EXPORT int cuGraphLaunch(void*, void*) { return 0; }
EXPORT int cuGraphExecDestroy(void*) { return 0; }
EXPORT int cuGraphDestroy(void*) { return 0; }
EXPORT int cuEventCreate(void** event, unsigned) { return *event = some_handle(), 0; }
EXPORT int cuEventDestroy_v2(void*) { return 0; }
EXPORT int cuEventRecord(void*, void*) { return 0; }
EXPORT int cuEventElapsedTime(float* milliseconds, void*, void*) { return *milliseconds = 1, 0; }
EXPORT int cuModuleLoadData(void** module, const void*) { return *module = some_handle(), 0; }
EXPORT int cuModuleUnload(void*) { return 0; }
EXPORT int cuModuleGetFunction(void** function, void*, const char*) { return *function = some_handle(), 0; }
EXPORT int cuLaunchKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                          void**) {
  return 0;
}

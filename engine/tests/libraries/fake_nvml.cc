// NVIDIA's management library without a GPU, loaded as libnvidia-ml.so.1 beside the driver of fake_cuda.cc. Tests only.
//
// BUSBW_TEST_THROTTLE is the mask of throttle reasons of the second GPU, BUSBW_TEST_PROCESSES how many processes
// compute on each (default 1), BUSBW_TEST_READ_US how long reading a clock takes, BUSBW_TEST_SOCKETS
// whether the GPUs say which processors are near.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

int setting(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? static_cast<int>(std::strtol(text, nullptr, 0)) : otherwise;
}

// As declared by the library's documented ABI.
struct FieldValue {
  unsigned field;
  unsigned scope;
  long long timestamp;
  long long latency_us;
  unsigned value_type;
  int result;
  unsigned long long value;
};

// Each call of the empty library counts as a megabyte over NVLink, on every GPU.
unsigned long long kibibytes_sent() {
  using Calls = unsigned long long();
  void* library = dlopen("libbusbw_test_empty_gpu.so", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return 0;
  auto* const calls = reinterpret_cast<Calls*>(dlsym(library, "busbw_test_calls"));
  dlclose(library);
  return calls == nullptr ? 0 : 1024 * calls();
}
char handles[16];
bool is_second(const void* device) { return device == &handles[1]; }

}  // namespace

EXPORT int nvmlInit_v2() { return 0; }
EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, void** device) {
  // As fake_cuda.cc numbers them: 0000:10:00.0, 0000:11:00.0, ...
  if (std::strncmp(bus_id, "0000:1", 6) != 0) return 6;
  return *device = &handles[bus_id[6] - '0'], 0;
}
EXPORT int nvmlDeviceGetClockInfo(void* device, int which, unsigned* mhz) {
  if (const int us = setting("BUSBW_TEST_READ_US", 0)) usleep(static_cast<useconds_t>(us));
  const bool slow = is_second(device) && setting("BUSBW_TEST_THROTTLE", 0) != 0;
  return *mhz = which == 1 ? (slow ? 1215 : 1980) : 3201, 0;
}
EXPORT int nvmlDeviceGetMaxClockInfo(void*, int, unsigned* mhz) { return *mhz = 1980, 0; }
EXPORT int nvmlDeviceGetCurrentClocksEventReasons(void* device, unsigned long long* reasons) {
  return *reasons = is_second(device) ? setting("BUSBW_TEST_THROTTLE", 0) : 0, 0;
}
EXPORT int nvmlDeviceGetTemperature(void* device, int, unsigned* celsius) {
  return *celsius = is_second(device) ? 47 : 41, 0;
}
// Two sockets of 512 processors with two GPUs each.
EXPORT int nvmlDeviceGetCpuAffinity(void* device, unsigned words, unsigned long* mask) {
  if (setting("BUSBW_TEST_SOCKETS", 0) == 0) return 3;
  constexpr long words_each = 512 / 64;
  const long socket = (static_cast<char*>(device) - handles) / 2;
  for (long word = 0; word < static_cast<long>(words); ++word) mask[word] = word / words_each == socket ? ~0UL : 0;
  return 0;
}
EXPORT int nvmlDeviceGetPowerUsage(void*, unsigned* milliwatts) { return *milliwatts = 412'500, 0; }
EXPORT int nvmlDeviceGetFieldValues(void*, int count, FieldValue* values) {
  for (int i = 0; i < count; ++i) {
    values[i].result = values[i].field == 138 || values[i].field == 139 ? 0 : 3;
    values[i].value_type = 3;
    values[i].value = kibibytes_sent();
  }
  return 0;
}
EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, void*) {
  *count = static_cast<unsigned>(setting("BUSBW_TEST_PROCESSES", 1));
  return *count > 0 ? 7 : 0;
}

// Finding the program's CUDA driver, and asking it about captures.
#include "library/record/cuda.h"

#include <dlfcn.h>

#include <atomic>

namespace busbw::record {

namespace {
std::atomic<const Cuda*> known{nullptr};
}

void find_cuda() {
  if (cuda()) return;
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (!driver) return;
  // Threads that come here at once find the same functions; what the loser made stays.
  auto* made = new Cuda;
#define BUSBW_FIND(member, name, parameters) \
  made->member = reinterpret_cast<decltype(made->member)>(dlsym(driver, #name));
  BUSBW_RECORDER_DRIVER(BUSBW_FIND)
#undef BUSBW_FIND
  known.store(made, std::memory_order_release);
}

const Cuda* cuda() { return known.load(std::memory_order_acquire); }

int capture_status(const void* stream) {
  const Cuda* driver = cuda();
  int status = 0;
  return driver && driver->is_capturing && driver->is_capturing(stream, &status) == 0 ? status : 0;
}

bool is_captured(const void* stream, void** graph) {
  *graph = nullptr;
  if (capture_status(stream) != 1) return false;
  const Cuda* driver = cuda();
  int status = 0;
  std::uint64_t id = 0;
  if (driver->capture_info && driver->capture_info(stream, &status, &id, graph, nullptr, nullptr) != 0)
    *graph = nullptr;
  return true;
}

}  // namespace busbw::record

// Loading the CUDA driver.
#include "library/gpu/cuda/driver.h"

#include <dlfcn.h>

#include <utility>

#include "library/common/failure.h"

namespace busbw::gpu {
namespace {

struct Loaded {
  Driver driver;
  std::string why_not;
};

Loaded load() {
  Loaded loaded;
  // Never closed: the driver keeps threads and exit handlers.
  void* handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    loaded.why_not = "there is no NVIDIA driver (libcuda.so.1)";
    return loaded;
  }
  Driver& d = loaded.driver;
  const char* missing = nullptr;
#define BUSBW_FIND(member, name, parameters)                             \
  d.member = reinterpret_cast<decltype(d.member)>(dlsym(handle, #name)); \
  if (!d.member && !missing) missing = #name;
  BUSBW_DRIVER_FUNCTIONS(BUSBW_FIND)
  if (missing) {
    loaded.why_not = text("the NVIDIA driver has no %s", missing);
    return loaded;
  }
  BUSBW_NEWER_DRIVER_FUNCTIONS(BUSBW_FIND)
  d.lacks = std::exchange(missing, nullptr);
  BUSBW_RANGE_DRIVER_FUNCTIONS(BUSBW_FIND)
  d.lacks_for_ranges = std::exchange(missing, nullptr);
  BUSBW_WORD_DRIVER_FUNCTIONS(BUSBW_FIND)
  d.lacks_for_words = std::exchange(missing, nullptr);
  BUSBW_GRAPH_DRIVER_FUNCTIONS(BUSBW_FIND)
  d.lacks_for_graphs = missing;
  BUSBW_OPTIONAL_DRIVER_FUNCTIONS(BUSBW_FIND)
#undef BUSBW_FIND
  if (const CudaResult result = d.init(0); result != cuda::success) {
    loaded.why_not = "the NVIDIA driver does not start: " + d.describe(result);
  }
  return loaded;
}

}  // namespace

std::string Driver::describe(CudaResult error) const {
  const char* name = nullptr;
  const char* words = nullptr;
  if (get_error_name(error, &name) != cuda::success || !name) return text("CUDA error %d", error);
  if (get_error_string(error, &words) != cuda::success || !words) return name;
  return text("%s (%s)", name, words);
}

void Driver::check(CudaResult result, const char* what, int ordinal) const {
  if (result == cuda::success) [[likely]]
    return;
  throw Failure(ncclUnhandledCudaError,
                text("busbw's GPU library: %s on GPU %d failed with %s.", what, ordinal, describe(result).c_str()));
}

const Driver* driver(std::string& why_not) {
  // Never destroyed: threads that give memory back may ask while the process ends.
  static const Loaded& loaded = *new Loaded(load());
  if (loaded.why_not.empty()) return &loaded.driver;
  why_not = loaded.why_not;
  return nullptr;
}

}  // namespace busbw::gpu

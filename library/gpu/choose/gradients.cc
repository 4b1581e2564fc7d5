// Looks for PyTorch's reducer among the callers of a thread.
#include "library/gpu/choose/gradients.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <mutex>
#include <string>
#include <string_view>

namespace busbw::gpu {
namespace {

constexpr std::string_view torch_library = "/libtorch_cpu.so";
// Seen in PyTorch 2.11 and 2.13; one of them is among the callers however the compiler joins the others.
constexpr const char* reducer_functions[] = {
    "_ZN4c10d7Reducer17all_reduce_bucketERNS0_6BucketE",  // c10d::Reducer::all_reduce_bucket(Bucket&)
    "_ZN4c10d7Reducer17mark_bucket_readyEm",              // c10d::Reducer::mark_bucket_ready(size_t)
    "_ZN4c10d7Reducer13autograd_hookEm",                  // c10d::Reducer::autograd_hook(size_t)
};

struct ReducerCode {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};
using ReducerCodes = std::array<ReducerCode, std::size(reducer_functions)>;

std::string path_of_library() {
  std::string found;
  const auto look = [](dl_phdr_info* object, std::size_t, void* into) {
    if (!object->dlpi_name || !std::string_view(object->dlpi_name).ends_with(torch_library)) return 0;
    *static_cast<std::string*>(into) = object->dlpi_name;
    return 1;
  };
  dl_iterate_phdr(look, &found);
  return found;
}

// No code where there is no libtorch, or one without these functions.
ReducerCodes find_codes() {
  ReducerCodes codes{};
  const std::string path = path_of_library();
  void* const opened = path.empty() ? nullptr : ::dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (!opened) return codes;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    void* const address = ::dlsym(opened, reducer_functions[i]);
    Dl_info info{};
    const ElfW(Sym)* symbol = nullptr;
    if (!address || !::dladdr1(address, &info, (void**)&symbol, RTLD_DL_SYMENT) || !symbol) continue;
    codes[i].begin = reinterpret_cast<std::uintptr_t>(address);
    codes[i].end = codes[i].begin + symbol->st_size;
  }
  ::dlclose(opened);
  return codes;
}

// Kept once they are found: a program may load PyTorch after its first calls.
ReducerCodes known_codes() {
  static std::mutex guard;
  static ReducerCodes codes{};
  const std::lock_guard lock(guard);
  const bool known = std::any_of(codes.begin(), codes.end(), [](const ReducerCode& one) { return one.begin != 0; });
  if (!known) codes = find_codes();
  return codes;
}

}  // namespace

bool called_for_gradients() {
  const ReducerCodes codes = known_codes();
  std::array<void*, 128> frames{};
  const int count = ::backtrace(frames.data(), int(frames.size()));
  return std::any_of(frames.begin(), frames.begin() + count, [&](const void* frame) {
    const auto at = reinterpret_cast<std::uintptr_t>(frame);  // where it goes on, which is behind a call
    return std::any_of(codes.begin(), codes.end(),
                       [&](const ReducerCode& code) { return code.begin < at && at <= code.end; });
  });
}

}  // namespace busbw::gpu

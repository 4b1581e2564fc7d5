// Allocations of ncclMemAlloc: memory of this process alone, as malloc would give it.
#include "library/cpu/heap.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

#include "library/common/failure.h"
#include "library/cpu/layout.h"

namespace busbw::cpu {
namespace {

struct Heap {
  std::mutex guard;
  std::map<void*, std::size_t> blocks;  // bytes by address
};

Heap& heap() {
  static Heap instance;
  return instance;
}

}  // namespace

// Ranks of several processes never reach into each other's buffers, so that nothing has to be shareable: a memory file
// would cost a descriptor each, and its pages are small ones where those of anonymous memory may be huge.
void* heap_allocate(std::size_t bytes) {
  const std::size_t rounded = round_up(std::max<std::size_t>(bytes, 1), page);
  void* address = rounded < bytes
                      ? MAP_FAILED
                      : ::mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) {
    throw Failure(ncclSystemError, text("ncclMemAlloc could not get %zu bytes: %s.", bytes, std::strerror(errno)));
  }
  const std::lock_guard lock(heap().guard);
  heap().blocks.emplace(address, rounded);
  return address;
}

void heap_free(void* address) {
  if (!address) return;
  const std::lock_guard lock(heap().guard);
  const auto found = heap().blocks.find(address);
  if (found == heap().blocks.end()) {
    throw Failure(ncclInvalidArgument, "ncclMemFree was given memory that ncclMemAlloc did not allocate.");
  }
  ::munmap(address, found->second);
  heap().blocks.erase(found);
}

}  // namespace busbw::cpu

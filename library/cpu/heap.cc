// Allocations of ncclMemAlloc, one memory file each.
#include "library/cpu/heap.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

#include "library/common/descriptor.h"
#include "library/common/failure.h"
#include "library/cpu/layout.h"

namespace busbw::cpu {
namespace {

struct Block {
  Descriptor file;
  std::size_t bytes;
};

struct Heap {
  std::mutex guard;
  std::map<void*, Block> blocks;
};

Heap& heap() {
  static Heap instance;
  return instance;
}

}  // namespace

void* heap_allocate(std::size_t bytes) {
  const std::size_t rounded = round_up(std::max<std::size_t>(bytes, 1), page);
  Descriptor file(::memfd_create("busbw-cpu", MFD_CLOEXEC));
  void* address = MAP_FAILED;
  if (file.valid() && ::ftruncate(file.get(), off_t(rounded)) == 0) {
    address = ::mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  }
  if (address == MAP_FAILED) {
    throw Failure(ncclSystemError, text("ncclMemAlloc could not get %zu bytes: %s.", bytes, std::strerror(errno)));
  }
  const std::lock_guard lock(heap().guard);
  heap().blocks.emplace(address, Block{std::move(file), rounded});
  return address;
}

void heap_free(void* address) {
  if (!address) return;
  const std::lock_guard lock(heap().guard);
  const auto found = heap().blocks.find(address);
  if (found == heap().blocks.end()) {
    throw Failure(ncclInvalidArgument, "ncclMemFree was given memory that ncclMemAlloc did not allocate.");
  }
  ::munmap(address, found->second.bytes);
  heap().blocks.erase(found);
}

}  // namespace busbw::cpu

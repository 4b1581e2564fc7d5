// The table of communicators.
#include "library/gpu/api/registry.h"

#include <mutex>

#include "library/common/nccl/real_nccl.h"

namespace busbw {

const LibraryInFront this_library = {"busbw's GPU library", "busbwExplainCall", nullptr};

}  // namespace busbw

namespace busbw::gpu {

void Registry::put(ncclComm_t comm, std::shared_ptr<Entry> entry) {
  const std::unique_lock lock(guard_);
  // A handle comes again when its communicator went without us. What stood there goes outside the lock.
  entries_[comm].swap(entry);
}

std::shared_ptr<Entry> Registry::find(ncclComm_t comm) const {
  const std::shared_lock lock(guard_);
  const auto found = entries_.find(comm);
  return found == entries_.end() ? nullptr : found->second;
}

std::shared_ptr<Entry> Registry::take(ncclComm_t comm) {
  const std::unique_lock lock(guard_);
  const auto found = entries_.find(comm);
  if (found == entries_.end()) return nullptr;
  std::shared_ptr<Entry> entry = std::move(found->second);
  entries_.erase(found);
  return entry;
}

Registry& registry() {
  // Never destroyed: communicators that a program leaves behind go with its process.
  static auto* all = new Registry;
  return *all;
}

}  // namespace busbw::gpu

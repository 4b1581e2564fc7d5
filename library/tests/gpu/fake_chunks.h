// Memory of cuMemCreate of the GPU for tests: files that are mapped side by side.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "library/common/failure.h"
#include "library/gpu/cuda/device.h"

namespace busbw::gpu::test {

class FakeChunks : public Device {
 public:
  static constexpr std::size_t chunk = std::size_t{1} << 16;

  // As a program does: addresses first, memory there later, which goes and comes again.
  unsigned char* reserve(std::size_t chunks) {
    return static_cast<unsigned char*>(
        ::mmap(nullptr, chunks * chunk, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  }
  void map(unsigned char* at) {
    auto file = std::make_shared<Descriptor>(::memfd_create("busbw-fake-chunk", MFD_CLOEXEC));
    if (!file->valid() || ::ftruncate(file->get(), chunk) != 0) throw Failure(ncclSystemError, "memfd_create failed");
    ::mmap(at, chunk, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file->get(), 0);
    const std::lock_guard lock(chunks_guard_);
    mapped_[at] = ++last_handle_;
    files_[last_handle_] = std::move(file);
  }
  void unmap(unsigned char* at) {
    ::mmap(at, chunk, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    const std::lock_guard lock(chunks_guard_);
    if (const auto found = mapped_.find(at); found != mapped_.end()) {
      if (!retained_.contains(found->second)) files_.erase(found->second);
      mapped_.erase(found);
    }
  }
  std::size_t retained() {
    const std::lock_guard lock(chunks_guard_);
    return retained_.size();
  }
  std::atomic<bool> refuse_chunks{false};  // the program has asked for no handles that travel

  Chunks retain_chunks(const void* memory, std::size_t bytes, std::size_t enough) override {
    const std::lock_guard lock(chunks_guard_);
    const auto* const begin = static_cast<const unsigned char*>(memory);
    auto first = mapped_.upper_bound(begin);
    if (first == mapped_.begin() || begin >= (--first)->first + chunk) return {};
    Chunks chunks{.begin = first->first, .each = chunk, .allocations = {}};
    const auto end = [&] { return chunks.begin + chunk * chunks.allocations.size(); };
    for (auto next = first; next != mapped_.end() && next->first == end(); ++next) {
      if (end() >= begin + bytes && chunks.allocations.size() >= enough) break;
      chunks.allocations.push_back(next->second);
    }
    if (end() < begin + bytes) return {};
    while (chunks.allocations.size() < enough && mapped_.contains(chunks.begin - chunk)) {
      chunks.begin -= chunk;
      chunks.allocations.insert(chunks.allocations.begin(), mapped_.at(chunks.begin));
    }
    for (const std::uint64_t handle : chunks.allocations) ++retained_[handle];
    return chunks;
  }
  bool are_there(const Chunks& chunks, const void* memory, std::size_t bytes) override {
    const std::lock_guard lock(chunks_guard_);
    const auto offset = std::size_t(static_cast<const unsigned char*>(memory) - chunks.begin);
    for (std::size_t i = offset / chunk; i * chunk < offset + bytes; ++i) {
      const auto found = mapped_.find(chunks.begin + i * chunk);
      if (found == mapped_.end() || found->second != chunks.allocations[i]) return false;
    }
    return true;
  }
  std::vector<Descriptor> share(const Chunks& chunks) override {
    if (refuse_chunks) throw Failure(ncclUnhandledCudaError, "the test GPU exports no such handle");
    const std::lock_guard lock(chunks_guard_);
    std::vector<Descriptor> descriptors;
    for (const std::uint64_t handle : chunks.allocations) {
      descriptors.emplace_back(::fcntl(files_.at(handle)->get(), F_DUPFD_CLOEXEC, 0));
    }
    return descriptors;
  }
  void release(const Chunks& chunks) noexcept override {
    const std::lock_guard lock(chunks_guard_);
    for (const std::uint64_t handle : chunks.allocations) {
      if (--retained_[handle] > 0) continue;
      retained_.erase(handle);
      const auto at = [&](const auto& each) { return each.second == handle; };
      if (std::none_of(mapped_.begin(), mapped_.end(), at)) files_.erase(handle);
    }
  }
  void* open_chunks(std::uint64_t each, const std::vector<Descriptor>& descriptors) override {
    unsigned char* const all = reserve(descriptors.size());
    for (std::size_t i = 0; i < descriptors.size(); ++i) {
      if (each != chunk || ::mmap(all + i * chunk, chunk, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                                  descriptors[i].get(), 0) == MAP_FAILED) {
        throw Failure(ncclUnhandledCudaError, "the test GPU cannot map a peer's memory");
      }
    }
    opened_chunks(all, descriptors.size() * chunk);
    return all;
  }
  using Device::release, Device::share;

 protected:
  virtual void opened_chunks(void* memory, std::size_t bytes) = 0;
  std::uint64_t chunk_at(const void* memory) {
    const std::lock_guard lock(chunks_guard_);
    const auto next = mapped_.upper_bound(static_cast<const unsigned char*>(memory));
    if (next == mapped_.begin()) return 0;
    const auto& [begin, handle] = *std::prev(next);
    return memory < begin + chunk ? handle : 0;
  }

 private:
  std::mutex chunks_guard_;
  std::map<const unsigned char*, std::uint64_t> mapped_;
  std::map<std::uint64_t, std::shared_ptr<Descriptor>> files_;
  std::map<std::uint64_t, int> retained_;
  std::uint64_t last_handle_ = 1000000;
};

}  // namespace busbw::gpu::test

// One rank: its device, stream, communicator and buffers, from creation to the orderly end.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "engine/collectives/collective.h"
#include "engine/core/plan.h"
#include "engine/library_api/library.h"
#include "engine/measure/watchdog.h"
#include "engine/platform/device.h"

namespace busbw {

// Memory of one allocator, released by the same.
class DeviceMemory {
 public:
  using Release = std::function<void(void*)>;
  DeviceMemory() = default;
  DeviceMemory(void* memory, Release release) : memory_(memory), release_(std::move(release)) {}
  DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(release_, other.release_);
    return *this;
  }
  ~DeviceMemory() {
    if (memory_ != nullptr && release_) release_(memory_);
  }
  char* get() const { return static_cast<char*>(memory_); }

 private:
  void* memory_ = nullptr;
  Release release_;
};

struct Rank {
  int world_rank = 0;  // over all groups
  Seat seat;           // in its communicator
  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  ncclComm_t comm = nullptr;
  DeviceMemory send;
  DeviceMemory recv;
  DeviceMemory expected;
  std::vector<int> cpus;  // processors to run on near the device; empty: anywhere
  std::vector<void*> registrations;
  std::vector<ncclWindow_t> windows;
  std::function<void(void*, const void*, std::size_t)> copy;  // in stream order
};

// Buffers of `bytes` (and room for -u) for send and recv and, where results are checked, a piece of expected values.
void allocate_buffers(Rank& rank, const Library& library, const Plan& plan, Bytes bytes);

// Makes the communicators of these ranks in one group, so that one thread can do it for several.
void create_communicators(std::vector<Rank*> ranks, const Library& library, const Plan& plan, const ncclUniqueId& id,
                          AbortSwitch& abort_switch);

// -R: makes the buffers known to the library, inside one group.
void register_buffers(std::vector<Rank*> ranks, const Library& library, Registration registration, Bytes bytes);

// Orderly end of what the functions above made. After an abort only what is safe.
void destroy_communicators(std::vector<Rank*> ranks, const Library& library, AbortSwitch& abort_switch) noexcept;

}  // namespace busbw

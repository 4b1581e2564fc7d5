// Eager calls by staged copies as graphs: the driver is asked once for a call instead of some ten times for each piece.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "library/gpu/choose/choice.h"
#include "library/gpu/cuda/device.h"
#include "library/gpu/run/call.h"

namespace busbw::gpu {

// Programs make the same calls in each step, with the same buffers. A call that has come twice is recorded into a graph
// when it comes again. Not thread-safe.
class StagedGraphs {
 public:
  explicit StagedGraphs(std::shared_ptr<Device> device);
  ~StagedGraphs();
  StagedGraphs(const StagedGraphs&) = delete;
  StagedGraphs& operator=(const StagedGraphs&) = delete;

  // What puts a call's work into a stream.
  using Put = std::function<void(DeviceStream)>;
  // The call's graph, which `put` has made now or earlier. Null where the call has not come often enough, or where the
  // driver keeps no graphs or does not tell allocations apart.
  DeviceGraph of(const Call& call, const Choice& choice, const Put& put);

 private:
  static constexpr std::size_t most = 512;

  // A graph holds addresses. Memory that was freed and came again at the same address is another allocation.
  struct Key {
    Collective collective{};
    int type = 0;
    int op = 0;
    int pieces = 0;
    std::size_t count = 0;
    std::uintptr_t send = 0;
    std::uintptr_t recv = 0;
    std::uint64_t send_allocation = 0;
    std::uint64_t recv_allocation = 0;
    auto operator<=>(const Key&) const = default;
  };
  struct Entry {
    int seen = 0;
    std::uint64_t last = 0;  // by `calls_`
    DeviceGraph graph = nullptr;
  };
  void forget_the_oldest();

  std::shared_ptr<Device> device_;
  bool possible_;
  DeviceStream stream_ = nullptr;  // to record in
  std::uint64_t calls_ = 0;
  std::map<Key, Entry> entries_;
};

}  // namespace busbw::gpu

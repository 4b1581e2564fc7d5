// Graphs of the GPU for tests: lists of what copies, adds and words were asked for, done anew at each launch.
#pragma once

#include <atomic>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "library/common/failure.h"
#include "library/gpu/cuda/device.h"
#include "library/tests/gpu/fake_chunks.h"

namespace busbw::gpu::test {

inline DeviceStream stream(std::uintptr_t number) { return reinterpret_cast<DeviceStream>(number); }

struct Launch {
  int kind = 0;
  ncclDataType_t type{};
  int channels = 0;
  int threads = 0;
  KernelArguments arguments;
  DeviceStream on = nullptr;
};

// How this thread's calls bear on captures of others (CUstreamCaptureMode): 0 globally, 2 not at all.
inline int& capture_mode_here() {
  static thread_local int mode = 0;
  return mode;
}

class FakeGraphs : public FakeChunks {
 public:
  std::size_t free_memory() override { return free_bytes; }
  bool can_keep_graphs() const override { return keeps_graphs; }
  std::uint64_t allocation_of(const void*) override { return allocation_number; }
  DeviceGraph record_graph(DeviceStream stream, const std::function<void()>& work) override {
    note(text("record graph s%zu", reinterpret_cast<std::size_t>(stream)));
    if (refuse_graphs) throw Failure(ncclUnhandledCudaError, "the test GPU records no graph");
    std::vector<Step> steps;
    recorded() = &steps;
    work();
    recorded() = nullptr;
    const std::lock_guard lock(graphs_guard_);
    graphs_.push_back(std::move(steps));
    return reinterpret_cast<DeviceGraph>(graphs_.size());
  }
  void launch(DeviceGraph graph, DeviceStream stream) override {
    const auto number = reinterpret_cast<std::size_t>(graph);
    note(text("launch graph %zu s%zu", number, reinterpret_cast<std::size_t>(stream)));
    std::vector<Step> steps;
    {
      const std::lock_guard lock(graphs_guard_);
      steps = graphs_.at(number - 1);
    }
    for (const Step& step : steps) step();
  }
  // What they do is copied; what they add is no matter here, as with add().
  bool slim_add(ncclDataType_t type, const AddArguments& a, DeviceStream on) override {
    if (!has_slim || take([=, this] { slim_add(type, a, on); })) return has_slim;
    note(text("slim add s%zu", reinterpret_cast<std::size_t>(on)));
    return true;
  }
  bool has_slim_copy() const override { return has_slim; }
  bool slim_copy(const CopyArguments& a, DeviceStream on) override {
    if (refuse_slim) return false;
    if (!has_slim || take([=, this] { slim_copy(a, on); })) return has_slim;
    note(text("slim copy s%zu", reinterpret_cast<std::size_t>(on)));
    std::memcpy(a.to, a.from, a.bytes);
    if (a.also) std::memcpy(a.also, a.from, a.bytes);
    return true;
  }
  void destroy(DeviceGraph graph) noexcept override {
    if (graph) note(text("destroy graph %zu", reinterpret_cast<std::size_t>(graph)));
  }
  using Device::destroy, Device::launch;
  virtual void note(const std::string& what) = 0;

  std::atomic<std::size_t> free_bytes{std::size_t{1} << 40};
  std::atomic<bool> keeps_graphs{true}, refuse_graphs{false}, has_slim{false}, refuse_slim{false};
  std::atomic<std::uint64_t> allocation_number{1};  // of all memory

 protected:
  using Step = std::function<void()>;
  // Whether this thread records a graph, which `step` has become part of then.
  static bool take(const Step& step) {
    if (!recorded()) return false;
    recorded()->push_back(step);
    return true;
  }

 private:
  static std::vector<Step>*& recorded() {
    static thread_local std::vector<Step>* steps = nullptr;
    return steps;
  }
  std::mutex graphs_guard_;
  std::vector<std::vector<Step>> graphs_;
};

}  // namespace busbw::gpu::test

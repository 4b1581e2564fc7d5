// The fake GPUs of a test: each rank opens one of its own.
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "library/tests/gpu/fake_device.h"

namespace busbw::gpu::test {

// Each rank opens a GPU of its own, whatever its number; the test finds it as the one that its thread has opened last.
class FakeDevices : public Devices {
 public:
  FakeDevices() { use_devices(this); }
  ~FakeDevices() override {
    use_devices(nullptr);
    const std::lock_guard lock(guard_);
    for (const std::weak_ptr<FakeDevice>& one : all_) {
      if (const auto device = one.lock()) device->destroy_graphs();
    }
  }
  std::string why_none() override { return none; }
  std::shared_ptr<Device> open(int ordinal) override {
    if (one_for_each_thread && !opened_here().empty()) return opened_here().back();
    if (of_this_rank()) return of_this_rank();
    auto device = std::make_shared<FakeDevice>(ordinal);
    if (prepare) prepare(*device);
    opened_here().push_back(device);
    const std::lock_guard lock(guard_);
    all_.push_back(device);
    return device;
  }
  int exchange_capture_mode(int mode) override { return std::exchange(capture_mode_here(), mode); }
  static std::vector<std::shared_ptr<FakeDevice>>& opened_here() {
    static thread_local std::vector<std::shared_ptr<FakeDevice>> devices;
    return devices;
  }

  // For threads of one rank, which share its GPU.
  static std::shared_ptr<FakeDevice>& of_this_rank() {
    static thread_local std::shared_ptr<FakeDevice> device;
    return device;
  }

  std::string none;
  bool one_for_each_thread = false;  // instead of one for each communicator
  std::function<void(FakeDevice&)> prepare;

 private:
  std::mutex guard_;
  std::vector<std::weak_ptr<FakeDevice>> all_;
};

// Of the rank that this thread or process is.
inline FakeDevice& my_device() { return *FakeDevices::opened_here().back(); }

}  // namespace busbw::gpu::test

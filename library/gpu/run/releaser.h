// Ends the waits of a poisoned communicator's streams.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "library/common/failure.h"
#include "library/gpu/run/communicator.h"
#include "library/gpu/watch/background.h"

namespace busbw::gpu {

// A stream that waits for a word does not look at the abort word, as kernels do. So once the communicator is poisoned,
// this thread lets the rank's words say all that can be waited for, again and again, until the streams have gone by.
class Communicator::Releaser {
 public:
  Releaser(std::shared_ptr<Health> health, std::shared_ptr<ScratchMemory> memory)
      : health_(std::move(health)), memory_(std::move(memory)), thread_([this] { run(); }) {}
  ~Releaser() {
    {
      const std::lock_guard lock(guard_);
      ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Releaser(const Releaser&) = delete;
  Releaser& operator=(const Releaser&) = delete;

 private:
  void run() {
    std::unique_lock lock(guard_);
    DeviceStream stream = nullptr;
    while (!ends_) {
      const bool poisoned = health_->code() != ncclSuccess;
      if (poisoned && process_ends()) return;
      if (poisoned) {
        try {
          if (!stream) stream = memory_->device()->create_stream();
          memory_->release_waits(stream);
        } catch (const Failure&) {
          break;  // The GPU's context is lost, and with it everything that ran.
        }
      }
      changed_.wait_for(lock, std::chrono::milliseconds(poisoned ? 1 : 20));
    }
    if (stream) memory_->device()->destroy(stream);
  }

  std::shared_ptr<Health> health_;
  std::shared_ptr<ScratchMemory> memory_;
  std::mutex guard_;
  std::condition_variable changed_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace busbw::gpu

// Guards around questions to the driver, and addresses as it takes them.
#pragma once

#include "library/gpu/cuda/cuda_device.h"

namespace busbw::gpu {

inline CudaAddress address(const void* pointer) { return reinterpret_cast<CudaAddress>(pointer); }
inline void* pointer(CudaAddress address) { return reinterpret_cast<void*>(address); }

// Makes the GPU's context current for a while. Launches come from the thread that uses this GPU anyway: there it is one
// question to the driver.
class CudaDevice::Current {
 public:
  explicit Current(const CudaDevice& device) : driver_(device.driver_) {
    CudaContext now = nullptr;
    if (driver_.context_get_current(&now) == cuda::success && now == device.context_) return;
    pushed_ = driver_.context_push(device.context_) == cuda::success;
  }
  ~Current() {
    CudaContext ignored = nullptr;
    if (pushed_) driver_.context_pop(&ignored);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  const Driver& driver_;
  bool pushed_ = false;
};

// The same for what a capture of the program forbids in its mode.
class CudaDevice::Aside {
 public:
  explicit Aside(const CudaDevice& device) : driver_(device.driver_), current_(device) {
    exchanged_ = driver_.exchange_capture_mode(&mode_) == cuda::success;
  }
  ~Aside() {
    if (exchanged_) driver_.exchange_capture_mode(&mode_);
  }
  Aside(const Aside&) = delete;
  Aside& operator=(const Aside&) = delete;

 private:
  const Driver& driver_;
  Current current_;
  int mode_ = cuda::capture_mode_relaxed;
  bool exchanged_ = false;
};

}  // namespace busbw::gpu

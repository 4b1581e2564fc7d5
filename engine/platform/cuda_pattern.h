// The pattern kernels of one GPU: loaded into its context, launched on its streams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "engine/core/pattern.h"
#include "engine/core/plan.h"
#include "engine/platform/cuda_driver.h"

namespace busbw {

// The device's context must be the calling thread's current one in every call.
class CudaPatternKernels {
 public:
  // `where` names the device in errors.
  CudaPatternKernels(const CudaDriver& driver, CudaDevice device, std::string where);
  ~CudaPatternKernels();
  CudaPatternKernels(const CudaPatternKernels&) = delete;
  CudaPatternKernels& operator=(const CudaPatternKernels&) = delete;

  // Asynchronous on the stream.
  void fill(void* memory, const Pattern& pattern, std::span<const Segment> segments, CudaStream stream);

  // Waits for the stream.
  std::uint64_t count_wrong(const void* data, const void* expected, std::size_t count, const Pattern& pattern,
                            CudaStream stream);

  // out = left * right of float32, all by rows; asynchronous on the stream.
  void multiply(const ProductShape& shape, CudaAddress left, CudaAddress right, CudaAddress out, CudaStream stream);

 private:
  CudaPatternKernels(const CudaDriver& driver, std::string where);
  CudaFunction find(const std::string& name);
  void launch(CudaFunction function, std::uint64_t bytes, unsigned rows, void* arguments, CudaStream stream);

  const CudaDriver& driver_;
  std::string where_;
  unsigned multiprocessors_ = 1;
  CudaModule module_ = nullptr;
  CudaFunction product_ = nullptr;
  CudaAddress counter_ = 0;
  std::uint64_t* total_ = nullptr;  // page-locked, so that the copy from the counter is one transfer
};

}  // namespace busbw

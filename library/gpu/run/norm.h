// All-reduce, residual and RMSNorm together: what a caller asks for, what is refused, and how the kernel is started.
#pragma once

#include <cstddef>
#include <string>

#include "library/gpu/cuda/device.h"

namespace busbw::gpu {

struct NormCall {
  ncclDataType_t type{};
  const void* input = nullptr;
  const void* residual = nullptr;
  const void* weight = nullptr;
  float epsilon = 0;
  std::size_t rows = 0;
  std::size_t hidden = 0;  // elements of a row
  void* output = nullptr;
  void* residual_out = nullptr;
  DeviceStream stream = nullptr;
};

inline constexpr std::size_t most_hidden = 16384;

// Why the call cannot be done at all, whatever the communicator; empty if it can.
std::string why_no_norm(const NormCall& call);

struct NormShape {
  NormWay way = NormWay::alone;
  int channels = 0;
  int threads = 0;
  int members = 1;  // channels that share a row
  bool operator==(const NormShape&) const = default;
};

// The same on all ranks: it hangs on nothing but the sizes. `alone` where the rows do not fit into the scratch.
NormShape norm_shape(std::size_t rows, std::size_t row_bytes, const Layout& layout, int channel_limit);
// Of the kernel behind an all-reduce.
NormShape norm_alone_shape(std::size_t rows, std::size_t row_bytes);

NormArguments norm_arguments(const NormCall& call);

}  // namespace busbw::gpu

// A collective as the program called it.
#pragma once

#include <cstddef>

#include "library/gpu/choose/names.h"
#include "library/gpu/cuda/device.h"

namespace busbw::gpu {

struct Call {
  Collective collective{};
  ncclDataType_t type = ncclInt8;
  ncclRedOp_t op = ncclSum;
  std::size_t count = 0;
  int root = 0;
  const void* send = nullptr;
  void* recv = nullptr;
  DeviceStream stream = nullptr;
};

}  // namespace busbw::gpu

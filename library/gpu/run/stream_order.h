// Calls of one communicator run one after the other, also where they come on different streams: NCCL promises that, and
// our kernels share their scratch.
#pragma once

#include <cstdint>
#include <memory>

#include "library/gpu/cuda/device.h"

namespace busbw::gpu {

// before() and after() frame whatever a call puts into its stream; after() takes what before() gave, the capture that
// the stream is part of, or 0.
//
// Eager calls wait for the last eager call. Calls that a graph captures wait for the last one of the same capture, as
// CUDA allows no other dependency there; what orders a graph's launches and eager calls is the stream they share.
class StreamOrder {
 public:
  explicit StreamOrder(std::shared_ptr<Device> device);
  ~StreamOrder();
  StreamOrder(const StreamOrder&) = delete;
  StreamOrder& operator=(const StreamOrder&) = delete;

  std::uint64_t before(DeviceStream stream);
  void after(DeviceStream stream, std::uint64_t capture);
  // All eager calls are done.
  bool idle();

 private:
  struct Last {
    DeviceEvent event = nullptr;
    DeviceStream stream = nullptr;
    bool recorded = false;
  };
  bool same(DeviceStream a, DeviceStream b) const;

  std::shared_ptr<Device> device_;
  Last eager_;
  // An event that was recorded in a capture can be used nowhere else.
  Last captured_;
  std::uint64_t capture_ = 0;
};

}  // namespace busbw::gpu

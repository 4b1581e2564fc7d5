// Events between the streams of a communicator's calls.
#include "library/gpu/run/stream_order.h"

#include <cstdint>

namespace busbw::gpu {
namespace {

// Handles that CUDA gives meaning to: 0 and 1 are the legacy stream, 2 is a different stream on every thread.
std::uintptr_t number(DeviceStream stream) { return reinterpret_cast<std::uintptr_t>(stream); }

}  // namespace

StreamOrder::StreamOrder(std::shared_ptr<Device> device) : device_(std::move(device)) {
  eager_.event = device_->create_event();
  captured_.event = device_->create_event();
}

StreamOrder::~StreamOrder() {
  device_->destroy(eager_.event);
  device_->destroy(captured_.event);
}

bool StreamOrder::same(DeviceStream a, DeviceStream b) const {
  if (number(a) == 2 || number(b) == 2) return false;
  return a == b || (number(a) <= 1 && number(b) <= 1);
}

std::uint64_t StreamOrder::before(DeviceStream stream) {
  const std::uint64_t capture = device_->capture(stream);
  if (capture && capture != capture_) return capture;
  const Last& last = capture ? captured_ : eager_;
  if (last.recorded && !same(last.stream, stream)) device_->wait(stream, last.event);
  return capture;
}

// The event is recorded now, not when another stream comes: the program may destroy this one in between.
void StreamOrder::after(DeviceStream stream, std::uint64_t capture) {
  Last& last = capture ? captured_ : eager_;
  if (capture) capture_ = capture;
  device_->record(last.event, stream);
  last.stream = stream;
  last.recorded = true;
}

bool StreamOrder::idle() { return !eager_.recorded || device_->done(eager_.event); }

}  // namespace busbw::gpu

// Events between the streams of a communicator's calls, and nodes in their graphs.
#include "library/gpu/run/stream_order.h"

#include "library/common/failure.h"

namespace busbw::gpu {
namespace {

// Captures that one communicator is part of at once. More than a few would take as many threads.
constexpr std::size_t most_captures = 64;

}  // namespace

StreamOrder::StreamOrder(std::shared_ptr<Device> device, bool mixing) : device_(std::move(device)), mixing_(mixing) {
  line_ = std::make_shared<Line>(device_);
  joint_ = device_->create_event();
}

StreamOrder::~StreamOrder() {
  for (const Capture& capture : captures_) device_->destroy(capture.last);
  device_->destroy(joint_);
}

StreamOrder::Capture* StreamOrder::find(std::uint64_t id) {
  for (Capture& capture : captures_)
    if (capture.id == id) return &capture;
  return nullptr;
}

StreamOrder::Capture& StreamOrder::begin(std::uint64_t id) {
  if (captures_.size() < most_captures) {
    captures_.push_front({.id = id, .last = device_->create_event(), .ends = {}, .record = {}});
  } else {
    captures_.splice(captures_.begin(), captures_, std::prev(captures_.end()));
    captures_.front() = {.id = id, .last = captures_.front().last, .ends = {}, .record = {}};
  }
  return captures_.front();
}

Turn StreamOrder::turn(DeviceStream stream, Streams others) {
  Turn turn{.stream = stream, .capture = device_->capture(stream)};
  if (turn.capture == lost_capture) {
    throw Failure(ncclUnhandledCudaError,
                  "A stream takes no calls now: its capture was broken and has yet to be ended, or it is the legacy "
                  "stream while another stream captures.");
  }
  // The driver refuses to tell the number of a stream that is being captured (cuStreamGetId gives
  // CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED and ends the capture).
  if (turn.capture == 0) turn.identity = device_->identity(stream);
  for (const DeviceStream other : others) {
    if (device_->capture(other) == turn.capture) continue;
    throw Failure(ncclInvalidUsage,
                  "The streams that a group uses on one communicator must be captured by the same graph, or none of "
                  "them at all.");
  }
  return turn;
}

void StreamOrder::before(const Turn& turn, Streams others) {
  turn.capture ? wait_in_capture(turn) : wait_in_line(turn);
  for (const DeviceStream other : others) {
    device_->record(joint_, other);
    device_->wait(turn.stream, joint_);
  }
}

void StreamOrder::wait_in_line(const Turn& turn) {
  const bool graphs = line_.use_count() > 1;
  if ((recorded_ && !same(turn.identity, last_identity_)) || graphs || graphs_) {
    device_->wait(turn.stream, line_->event());
  }
  graphs_ = graphs;
}

void StreamOrder::wait_in_capture(const Turn& turn) {
  if (const Capture* capture = find(turn.capture)) {
    // Asked of the graph and not of the stream: a program may set a stream's dependencies
    // (cudaStreamUpdateCaptureDependencies), and handles of streams come again.
    if (!device_->comes_behind(turn.stream, capture->ends)) device_->wait(turn.stream, capture->last);
    return;
  }
  if (mixing_) {
    graphs_ = true;
    device_->keep(turn.stream, line_);
    device_->wait_outside(turn.stream, line_->event());
  }
  begin(turn.capture);
}

// The event is recorded now, not when another stream comes: the program may destroy this one in between.
void StreamOrder::after(const Turn& turn, Streams others) {
  Capture* const capture = turn.capture ? find(turn.capture) : nullptr;
  const DeviceEvent event = capture ? capture->last : line_->event();
  device_->record(event, turn.stream);
  if (capture) {
    capture->ends = device_->ends(turn.stream);
    if (mixing_) device_->record_outside(capture->record, line_->event(), turn.stream);
  } else {
    last_identity_ = turn.identity;
    recorded_ = true;
  }
  for (const DeviceStream other : others) device_->wait(other, event);
}

bool StreamOrder::idle() { return !(recorded_ || graphs_) || device_->done(line_->event()); }

}  // namespace busbw::gpu

// Keeps the graphs of calls that a program makes again and again.
#include "library/gpu/run/staged_graphs.h"

#include <algorithm>
#include <utility>

#include "library/common/failure.h"

namespace busbw::gpu {

StagedGraphs::StagedGraphs(std::shared_ptr<Device> device)
    : device_(std::move(device)), possible_(device_->can_keep_graphs()) {}

StagedGraphs::~StagedGraphs() {
  const AsideFromCaptures aside;
  for (const auto& [key, entry] : entries_) device_->destroy(entry.graph);
  if (stream_) device_->destroy(stream_);
}

DeviceGraph StagedGraphs::of(const Call& call, const Choice& choice, const Put& put) {
  if (!possible_) return nullptr;
  const Key key{.collective = call.collective,
                .type = int(call.type),
                .op = int(call.op),
                .pieces = choice.channels,
                .count = call.count,
                .send = reinterpret_cast<std::uintptr_t>(call.send),
                .recv = reinterpret_cast<std::uintptr_t>(call.recv),
                .send_allocation = device_->allocation_of(call.send),
                .recv_allocation = device_->allocation_of(call.recv)};
  if (key.send_allocation == 0 || key.recv_allocation == 0) return nullptr;
  if (entries_.size() >= most && !entries_.contains(key)) forget_the_oldest();
  Entry& entry = entries_[key];
  entry.last = ++calls_;
  if (entry.graph || entry.seen++ < 2) return entry.graph;
  const AsideFromCaptures aside;
  try {
    if (!stream_) stream_ = device_->create_stream();
    entry.graph = device_->record_graph(stream_, [&] { put(stream_); });
  } catch (const Failure&) {
    possible_ = false;  // nothing has run: the call goes as those before it
  }
  return entry.graph;
}

void StagedGraphs::forget_the_oldest() {
  const auto oldest = std::min_element(entries_.begin(), entries_.end(),
                                       [](const auto& a, const auto& b) { return a.second.last < b.second.last; });
  device_->destroy(oldest->second.graph);
  entries_.erase(oldest);
}

}  // namespace busbw::gpu

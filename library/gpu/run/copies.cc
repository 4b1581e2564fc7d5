// Calls of a communicator by copy engines: into windows of the peers, or staged through their scratch.
#include <algorithm>
#include <array>

#include "library/common/failure.h"
#include "library/gpu/run/communicator.h"
#include "library/gpu/run/releaser.h"

namespace busbw::gpu {

void Communicator::add_window(ncclWindow_t handle, std::unique_ptr<Window> window) {
  const std::lock_guard lock(guard_);
  windows_[handle] = std::move(window);
}

void Communicator::remove_window(ncclWindow_t handle) {
  {
    const std::lock_guard lock(guard_);
    if (!windows_.contains(handle)) return;
  }
  drain();
  const AsideFromCaptures aside;
  const std::lock_guard lock(guard_);
  windows_.erase(handle);
}

const Window* Communicator::window_of(const Call& call) const {
  if (windows_.empty() || reduces(call.collective)) return nullptr;
  const std::size_t block = call.count * type_bytes(call.type);
  const std::size_t bytes = call.collective == Collective::broadcast ? block : block * std::size_t(parts_.ranks);
  if (call.collective == Collective::all_to_all) {
    // A block that comes in would overwrite one that has yet to go out.
    const auto send = reinterpret_cast<std::uintptr_t>(call.send);
    const auto recv = reinterpret_cast<std::uintptr_t>(call.recv);
    if (send < recv + bytes && recv < send + bytes) return nullptr;
  }
  return window_with(call.recv, bytes);
}

const Window* Communicator::window_with(const void* memory, std::size_t bytes) const {
  for (const auto& [handle, window] : windows_) {
    if (window->holds(memory, bytes)) return window.get();
  }
  return nullptr;
}

bool Communicator::reduces_in_windows(const Call& call) const {
  if (windows_.empty() || call.collective != Collective::all_reduce) return false;
  const std::size_t bytes = call.count * type_bytes(call.type);
  return window_with(call.send, bytes) && window_with(call.recv, bytes);
}

// The nth stream of ours that is free, or part of the same capture already.
DeviceStream Communicator::side_stream(std::uint64_t capture, int nth) {
  for (const DeviceStream stream : side_streams_) {
    const std::uint64_t busy = device()->capture(stream);
    if ((busy == 0 || busy == capture) && nth-- == 0) return stream;
  }
  while (nth-- >= 0) {
    const AsideFromCaptures aside;
    side_streams_.push_back(device()->create_stream());
  }
  return side_streams_.back();
}

// Of a call that only moves data: what is captured keeps its addresses for ever, and nobody may lend for so long.
std::optional<Lending::Addresses> Communicator::lent_for(const Call& call, std::uint64_t capture) {
  if (!lending_ || reduces(call.collective)) return std::nullopt;
  std::size_t bytes = call.count * type_bytes(call.type);
  const std::size_t all = bytes * std::size_t(parts_.ranks);
  const auto send = reinterpret_cast<std::uintptr_t>(call.send);
  const auto recv = reinterpret_cast<std::uintptr_t>(call.recv);
  bool able = parts_.lends && capture == 0;
  if (call.collective == Collective::all_to_all) {
    // A block that comes in would overwrite one that has yet to go out.
    able = able && (send >= recv + all || recv >= send + all);
    bytes = all;
  } else {
    // Nor may the own block be written before it is read, but in its own place.
    const std::uintptr_t place = recv + std::size_t(parts_.rank) * bytes;
    able = able && (send == place || send >= recv + all || recv >= send + bytes);
  }
  return lending_->of_call(call.send, bytes, able);
}

void Communicator::launch_staged(const Call& call, const Choice& choice, std::uint64_t capture) {
  if (!releaser_) releaser_ = std::make_unique<Releaser>(parts_.health, parts_.memory);
  if (const auto lent = lent_for(call, capture)) {
    put_staged(call, choice, capture, &*lent);
    lending_->issued(call.stream);
    return;
  }
  if (capture != 0) return put_staged(call, choice, capture);
  const DeviceGraph graph = staged_graphs_.of(call, choice, [&](DeviceStream stream) {
    Call recorded = call;
    recorded.stream = stream;
    put_staged(recorded, choice, device()->capture(stream));
  });
  if (graph) {
    device()->launch(graph, call.stream);
  } else {
    put_staged(call, choice, 0);
  }
}

// What staged.h writes down, into the call's stream and, for several pieces, two streams beside it.
void Communicator::put_staged(const Call& call, const Choice& choice, std::uint64_t capture,
                              const Lending::Addresses* lent) {
  Device& on = *device();
  StagedRequest request{.collective = call.collective,
                        .send = call.send,
                        .recv = call.recv,
                        .bytes = call.count * type_bytes(call.type),
                        .op = ReduceOp(int(call.op)),
                        .rank = parts_.rank,
                        .pieces = choice.channels,
                        .copies_to_two = parts_.slim && on.has_slim_copy(),
                        .lent = lent,
                        .layout = constant_.layout};
  std::copy(std::begin(constant_.scratch), std::end(constant_.scratch), request.scratch.begin());
  std::array<DeviceStream, 3> streams{call.stream};
  std::array<bool, 3> used{};
  const std::vector<StagedStep> plan = staged_plan(request);
  for (const StagedStep& step : plan) used[step.stream] = true;
  const bool beside = used[StagedStep::push] || used[StagedStep::fetch];
  if (beside) on.record(fork_, call.stream);
  for (int i = 1; i < 3; ++i) {
    if (!used[std::size_t(i)]) continue;
    streams[std::size_t(i)] = side_stream(capture, i - 1);
    on.wait(streams[std::size_t(i)], fork_);
  }
  // Words one after the other in a stream go to the driver together.
  std::array<std::vector<WordStep>, 3> words;
  const auto write_words = [&](std::size_t stream) {
    if (!words[stream].empty()) on.order_by_words(words[stream].data(), words[stream].size(), streams[stream]);
    words[stream].clear();
  };
  for (const StagedStep& step : plan) {
    std::vector<WordStep>& here = words[step.stream];
    for (int i = 0; i < step.word_count; ++i) {
      const StagedStep::Word& word = step.words[std::size_t(i)];
      here.push_back({word.at, word.value, step.kind != StagedStep::Kind::set});
    }
    for (int i = 0; step.kind == StagedStep::Kind::await && i < step.word_count; ++i) {
      const StagedStep::Word& word = step.words[std::size_t(i)];
      here.push_back({word.at, 1 - word.value, false});
    }
    if (step.word_count > 0) continue;
    write_words(step.stream);
    const DeviceStream stream = streams[step.stream];
    if (step.kind == StagedStep::Kind::copy) {
      const CopyArguments copy{step.to, step.also, step.from, step.bytes};
      if (parts_.slim && step.within && on.slim_copy(copy, stream)) continue;
      on.copy(step.to, step.from, step.bytes, stream);
      if (step.also) on.copy(step.also, step.from, step.bytes, stream);
    } else if (step.kind == StagedStep::Kind::add) {
      if (!parts_.slim || !on.slim_add(call.type, step.sum, stream)) on.add(call.type, step.sum, stream);
    }
  }
  for (std::size_t i = 0; i < words.size(); ++i) write_words(i);
  for (int i = 1; i < 3; ++i) {
    if (!used[std::size_t(i)]) continue;
    on.record(join_, streams[std::size_t(i)]);
    on.wait(call.stream, join_);
  }
}

// The rank's own part goes beside the copies to its peers, as it takes the GPU's memory and not its links:
//
//     stream   meet | copy to peer 1 | copy to peer 2 | ... | meet
//     side     | copy to itself                             |
void Communicator::launch_copies(const Call& call, std::uint64_t capture) {
  const Window* window = window_of(call);
  if (!window) throw Failure(ncclInvalidUsage, "The window of a call was taken away before its group ended.");
  Device& on = *device();
  const KernelArguments meeting = arguments(call);
  const std::size_t block = call.count * type_bytes(call.type);
  const auto from = [&](int rank) {
    return static_cast<const unsigned char*>(call.send) +
           (call.collective == Collective::all_to_all ? rank : 0) * block;
  };
  unsigned char* const mine = static_cast<unsigned char*>(call.recv) +
                              (call.collective == Collective::broadcast ? 0 : std::size_t(parts_.rank) * block);
  const bool sends = call.collective != Collective::broadcast || parts_.rank == call.root;
  const bool copies_own = sends && from(parts_.rank) != mine;
  if (copies_own) {
    const DeviceStream side = side_stream(capture);
    on.record(fork_, call.stream);
    on.wait(side, fork_);
    on.copy(mine, from(parts_.rank), block, side);
    on.record(join_, side);
  }
  on.meet(meeting, call.stream);
  for (int i = 1; sends && i < parts_.ranks; ++i) {
    const int peer = peer_after(meeting, i);
    on.copy(window->on(peer, mine), from(peer), block, call.stream);
  }
  if (copies_own) on.wait(call.stream, join_);
  on.meet(meeting, call.stream);
}

}  // namespace busbw::gpu

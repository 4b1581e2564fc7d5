// The end of a group: our kernels first, in the order of their calls, then NCCL's part.
//
// Ours first, because NCCL too starts the collectives of a group before its messages: a rank may have both in one group
// while another has only the collective (docs/decisions/0018).
#include "library/gpu/api/group.h"

#include <algorithm>
#include <utility>

#include "library/common/failure.h"
#include "library/common/nccl/last_error.h"
#include "library/common/nccl/real_nccl.h"
#include "library/gpu/api/call_by_nccl.h"
#include "library/gpu/join/pending.h"
#include "library/gpu/join/window_opening.h"

namespace busbw::gpu {
namespace {

bool holds(const std::vector<DeviceStream>& streams, DeviceStream stream) {
  return std::find(streams.begin(), streams.end(), stream) != streams.end();
}

void add(std::vector<DeviceStream>& streams, DeviceStream stream) {
  if (!holds(streams, stream)) streams.push_back(stream);
}

}  // namespace

Group& Group::of_this_thread() {
  static thread_local Group group;
  return group;
}

ncclResult_t Group::start() {
  const ncclResult_t result = call_nccl(real_nccl().group_start);
  if (result == ncclSuccess) ++depth_;
  return result;
}

ncclResult_t Group::end() {
  // One end too many is NCCL's to refuse.
  if (depth_ == 0 || --depth_ > 0) return call_nccl(real_nccl().group_end);
  Contents contents = std::exchange(contents_, {});
  return run(contents);
}

// NCCL forgets the calls, too: nothing is queued, and nothing is left of them for a later group.
ncclResult_t Group::simulate_end(const std::function<ncclResult_t()>& by_nccl) {
  // An NCCL without it leaves the group open.
  if (!real_nccl().group_simulate_end || depth_ == 0 || --depth_ > 0) return by_nccl();
  const Contents contents = std::exchange(contents_, {});
  for (const Part& part : contents.parts) {
    for (const Communicator::Chosen& one : part.calls) call_by_nccl(part.comm, one.call);
    part.ours->take_back(part.counted);
  }
  const ncclResult_t result = by_nccl();
  if (contents.failure != ncclSuccess) return contents.failure;
  return conclude(contents, result);
}

// In an order that is the same on all ranks: where two communicators share a stream, one rank's thread may have called
// them in another order than its peers', which a group allows.
void Group::launch_ours(Contents& contents) {
  std::stable_sort(contents.parts.begin(), contents.parts.end(),
                   [](const Part& a, const Part& b) { return a.ours->kin() < b.ours->kin(); });
  for (Part& part : contents.parts) {
    if (part.calls.empty()) continue;
    part.ours->launch(part.calls, part.streams);
    part.started = true;
  }
  for (Part& part : contents.parts) {
    if (part.ours->asks_nccl()) {
      // First, so that what compares on this stream is in the line.
      std::erase(part.nccl, part.streams.front());
      part.nccl.insert(part.nccl.begin(), part.streams.front());
    }
    // NCCL joins the streams of its calls itself.
    if (!part.nccl.empty()) part.turn = part.ours->before(part.nccl.front(), part.nccl_collectives);
  }
}

ncclResult_t Group::run(Contents& contents) {
  std::string sentence;
  ncclResult_t failure = contents.failure;
  if (const char* known = remembered(); known && failure != ncclSuccess) sentence = known;
  try {
    if (failure == ncclSuccess) launch_ours(contents);
  } catch (const Failure& thrown) {
    failure = thrown.code();
    sentence = thrown.what();
  }
  // Whatever happened: NCCL's group must be closed.
  const bool captured = std::any_of(contents.parts.begin(), contents.parts.end(),
                                    [](const Part& part) { return !part.nccl.empty() && part.turn.capture != 0; });
  const ncclResult_t result = [&] {
    const AsideWhereNcclMayConnect aside(captured);
    return call_nccl(real_nccl().group_end);
  }();
  if (failure != ncclSuccess) {
    for (const Part& part : contents.parts) {
      if (!part.started) part.ours->take_back(part.counted);
    }
    return sentence.empty() ? failure : remember(failure, sentence);
  }
  if (result == ncclSuccess || result == ncclInProgress) {
    for (const Part& part : contents.parts) {
      if (part.nccl.empty()) continue;
      std::vector<DeviceStream> others;
      part.ours->compare();
      for (const DeviceStream stream : part.streams) {
        if (!holds(part.nccl, stream)) others.push_back(stream);
      }
      result == ncclSuccess ? part.ours->after(part.turn, others) : part.ours->after_later(part.turn, others);
    }
  }
  return conclude(contents, result);
}

// What a group makes is there when it has ended.
ncclResult_t Group::conclude(const Contents& contents, ncclResult_t result) {
  if (result != ncclSuccess && result != ncclInProgress) {
    forget();
    return result;
  }
  attach_all(contents.made);
  open_windows_of(contents.windows);
  return result;
}

// NCCL gives no handle where it registers nothing. Then nobody would say when the memory is gone.
void Group::open_windows_of(const std::vector<RegisteredWindow>& registered) {
  std::vector<NewWindow> windows;
  for (const RegisteredWindow& one : registered) {
    if (*one.handle) windows.push_back({one.comm, one.ours, one.memory, one.bytes, *one.handle});
  }
  if (!windows.empty()) open_windows(windows);
}

void Group::note_window(const RegisteredWindow& window) {
  if (open()) {
    contents_.windows.push_back(window);
  } else {
    open_windows_of({window});
  }
}

void Group::let_go(std::shared_ptr<Communicator> ours) {
  if (open()) contents_.gone.push_back(std::move(ours));
}

Group::Part& Group::part_of(ncclComm_t comm, const std::shared_ptr<Communicator>& ours) {
  for (Part& part : contents_.parts)
    if (part.ours == ours) return part;
  return contents_.parts.emplace_back(Part{.comm = comm, .ours = ours});
}

void Group::defer(ncclComm_t comm, std::shared_ptr<Communicator> ours, const Call& call, const Choice& choice) {
  Part& part = part_of(comm, ours);
  part.calls.push_back({call, choice});
  add(part.streams, call.stream);
}

void Group::count(ncclComm_t comm, const std::shared_ptr<Communicator>& ours) { ++part_of(comm, ours).counted; }

void Group::note_nccl(ncclComm_t comm, std::shared_ptr<Communicator> ours, DeviceStream stream, int collectives) {
  Part& part = part_of(comm, ours);
  part.nccl_collectives += collectives;
  add(part.nccl, stream);
  add(part.streams, stream);
}

void Group::note_new(const New& made) { contents_.made.push_back(made); }

void Group::note_failure(ncclResult_t code) {
  if (open() && contents_.failure == ncclSuccess) contents_.failure = code;
}

// Those that block meet here, together; the others on their way.
void Group::attach_all(const std::vector<New>& made) {
  std::vector<NewCommunicator> blocking;
  for (const New& one : made) {
    for (int i = 0; i < one.count; ++i) {
      if (!one.wishes.blocking && one.parent) {
        attach_when_filled(&one.comms[i], one.parent, one.wishes);
      } else if (one.comms[i] && !one.wishes.blocking) {
        attach_later({one.comms[i], one.wishes});
      } else if (one.comms[i]) {
        blocking.push_back({one.comms[i], one.wishes});
      }
    }
  }
  if (!blocking.empty()) attach(blocking);
}

void note_new_communicators(const Group::New& made) {
  Group& group = Group::of_this_thread();
  group.open() ? group.note_new(made) : Group::attach_all({made});
}

}  // namespace busbw::gpu

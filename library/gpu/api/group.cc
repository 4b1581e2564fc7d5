// The end of a group: our kernels first, in the order of their calls, then NCCL's part.
//
// Ours first, because NCCL too starts the collectives of a group before its messages: a rank may have both in one group
// while another has only the collective (docs/decisions/0018).
#include "library/gpu/api/group.h"

#include <utility>

#include "library/common/failure.h"
#include "library/gpu/api/last_error.h"
#include "library/gpu/api/real_nccl.h"
#include "library/gpu/join/window_opening.h"

namespace busbw::gpu {

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

ncclResult_t Group::run(Contents& contents) {
  std::string sentence;
  ncclResult_t failure = contents.failure;
  if (const char* known = remembered(); known && failure != ncclSuccess) sentence = known;
  try {
    if (failure == ncclSuccess) {
      for (const Deferred& one : contents.ours) one.ours->launch(one.call, one.choice);
      for (Nccl& one : contents.nccl) one.capture = one.ours->before(one.stream);
    }
  } catch (const Failure& thrown) {
    failure = thrown.code();
    sentence = thrown.what();
  }
  // Whatever happened: NCCL's group must be closed.
  const ncclResult_t result = call_nccl(real_nccl().group_end);
  if (failure != ncclSuccess) return sentence.empty() ? failure : remember(failure, sentence);
  if (result != ncclSuccess) {
    forget();
    return result;
  }
  for (const Nccl& one : contents.nccl) one.ours->after(one.stream, one.capture);
  std::vector<NewCommunicator> made;
  for (const New& one : contents.made) {
    for (int i = 0; i < one.count; ++i) {
      if (one.comms[i]) made.push_back({one.comms[i], one.blocking});
    }
  }
  if (!made.empty()) attach(made);
  open_windows_of(contents.windows);
  return ncclSuccess;
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

void Group::defer(std::shared_ptr<Communicator> ours, const Call& call, const Choice& choice) {
  contents_.ours.push_back({std::move(ours), call, choice});
}

void Group::note_nccl(std::shared_ptr<Communicator> ours, DeviceStream stream) {
  contents_.nccl.push_back({std::move(ours), stream, 0});
}

void Group::note_new(const ncclComm_t* comms, int count, bool blocking) {
  contents_.made.push_back({comms, count, blocking});
}

void Group::note_failure(ncclResult_t code) {
  if (open() && contents_.failure == ncclSuccess) contents_.failure = code;
}

void note_new_communicators(const ncclComm_t* comms, int count, bool blocking) {
  Group& group = Group::of_this_thread();
  if (group.open()) return group.note_new(comms, count, blocking);
  std::vector<NewCommunicator> made;
  for (int i = 0; i < count; ++i) {
    if (comms[i]) made.push_back({comms[i], blocking});
  }
  if (!made.empty()) attach(made);
}

}  // namespace busbw::gpu

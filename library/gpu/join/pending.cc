// Threads that wait for non-blocking communicators.
#include "library/gpu/join/pending.h"

#include <chrono>
#include <memory>
#include <thread>

#include "library/common/nccl/real_nccl.h"
#include "library/gpu/api/registry.h"
#include "library/gpu/watch/background.h"

namespace busbw::gpu {
namespace {

using std::chrono::milliseconds;

// What NCCL says when it is no longer at it. It takes as long as it takes: ranks may come late.
ncclResult_t wait_for_nccl(ncclComm_t comm, const std::atomic<bool>* cancelled) {
  for (;;) {
    rest_if_the_process_ends();
    if (cancelled && *cancelled) return ncclInProgress;
    ncclResult_t state = ncclSuccess;
    if (call_nccl(real_nccl().get_async_error, comm, &state) != ncclSuccess) return ncclInternalError;
    if (state != ncclInProgress) return state;
    std::this_thread::sleep_for(milliseconds(1));
  }
}

}  // namespace

void Pending::wait() {
  std::unique_lock lock(guard_);
  while (!done_ && !process_ends()) changed_.wait_for(lock, milliseconds(20));
}

void Pending::finish() {
  const std::lock_guard lock(guard_);
  done_ = true;
  changed_.notify_all();
}

void attach_later(const NewCommunicator& made) {
  auto entry = std::make_shared<Entry>();
  auto pending = std::make_shared<Pending>();
  entry->wishes = made.wishes;
  entry->reason = "it is not ready yet";
  entry->pending = pending;
  registry().put(made.comm, entry);
  const auto attach_it = [made, entry, pending] {
    const ncclResult_t state = wait_for_nccl(made.comm, &pending->cancelled());
    if (state == ncclSuccess) {
      pending->reach_ours();
      attach({made}, &pending->cancelled());
    } else {
      entry->reason = "NCCL did not make it";
    }
    pending->finish();
  };
  // Without a thread the program is kept until the ranks have met.
  if (!in_background(attach_it)) attach_it();
}

void attach_when_filled(const ncclComm_t* place, ncclComm_t parent, const Wishes& wishes) {
  // Without a parent that we know, no rank accelerates: all of them come from the same one.
  const std::shared_ptr<Entry> entry = parent ? registry().find(parent) : nullptr;
  if (!entry) {
    if (*place) attach_later({*place, wishes});
    return;
  }
  ++entry->making;
  const auto attach_it = [=] {
    // Where NCCL has not made it, nobody has written there; and where the parent is aborted, neither may be looked at.
    if (wait_for_nccl(parent, &entry->aborted) == ncclSuccess && *place) attach_later({*place, wishes});
    --entry->making;
  };
  if (!in_background(attach_it)) attach_it();
}

}  // namespace busbw::gpu

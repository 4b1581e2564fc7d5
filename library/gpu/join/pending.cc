// Threads that wait for non-blocking communicators.
#include "library/gpu/join/pending.h"

#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <memory>
#include <thread>

#include "library/common/nccl/real_nccl.h"
#include "library/gpu/api/registry.h"

namespace busbw::gpu {
namespace {

using std::chrono::milliseconds;

// The program's signals are for the program's threads.
template <class Body>
void on_a_thread(Body body) {
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread(std::move(body)).detach();
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// What NCCL says when it is no longer at it. It takes as long as it takes: ranks may come late.
ncclResult_t wait_for_nccl(ncclComm_t comm, const std::atomic<bool>* cancelled) {
  for (;;) {
    ncclResult_t state = ncclSuccess;
    if (call_nccl(real_nccl().get_async_error, comm, &state) != ncclSuccess) return ncclInternalError;
    if (state != ncclInProgress) return state;
    if (cancelled && *cancelled) return ncclInProgress;
    std::this_thread::sleep_for(milliseconds(1));
  }
}

}  // namespace

void Pending::wait() {
  std::unique_lock lock(guard_);
  changed_.wait(lock, [&] { return done_.load(); });
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
  on_a_thread([made, entry, pending] {
    const ncclResult_t state = wait_for_nccl(made.comm, &pending->cancelled());
    if (state == ncclSuccess) {
      pending->reach_ours();
      attach({made}, &pending->cancelled());
    } else {
      entry->reason = "NCCL did not make it";
    }
    pending->finish();
  });
}

void attach_when_filled(const ncclComm_t* place, ncclComm_t parent, const Wishes& wishes) {
  // Without a parent that we know, no rank accelerates: all of them come from the same one.
  const std::shared_ptr<Entry> entry = parent ? registry().find(parent) : nullptr;
  if (!entry) {
    if (*place) attach_later({*place, wishes});
    return;
  }
  ++entry->making;
  on_a_thread([=] {
    wait_for_nccl(parent, nullptr);
    if (*place) attach_later({*place, wishes});
    --entry->making;
  });
}

}  // namespace busbw::gpu

// A non-blocking communicator on its way: NCCL makes it while the program goes on, and then its ranks meet on a thread
// of ours. The program learns from ncclCommGetAsyncError when both are done.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "library/gpu/join/attach.h"

namespace busbw::gpu {

class Pending {
 public:
  bool done() const { return done_; }
  // Only NCCL knows of it so far, and answers calls itself.
  bool with_nccl() const { return !ours_; }
  // Not for longer than the process goes on.
  void wait();
  // Its ranks need not meet any more: the communicator is aborted.
  void cancel() { cancelled_ = true; }
  const std::atomic<bool>& cancelled() const { return cancelled_; }

  void reach_ours() { ours_ = true; }
  void finish();

 private:
  std::mutex guard_;
  std::condition_variable changed_;
  std::atomic<bool> done_{false}, ours_{false}, cancelled_{false};
};

// `comm` is known to NCCL already, though it may still be making it.
void attach_later(const NewCommunicator& made);
// As `parent` has it: NCCL fills `place` in when the parent is no longer in progress, and until then, and until the new
// communicator is known here too, the parent stays in progress.
void attach_when_filled(const ncclComm_t* place, ncclComm_t parent, const Wishes& wishes);

}  // namespace busbw::gpu

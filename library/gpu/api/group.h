// ncclGroupStart to ncclGroupEnd of one thread. The real NCCL's group is open all the while, and takes every call that
// is its own at once; calls of ours wait for the end of the outermost group.
#pragma once

#include <memory>
#include <vector>

#include "library/gpu/join/attach.h"
#include "library/gpu/run/communicator.h"

namespace busbw::gpu {

class Group {
 public:
  static Group& of_this_thread();
  bool open() const { return depth_ > 0; }

  ncclResult_t start();
  ncclResult_t end();

  // Inside a group only.
  void defer(std::shared_ptr<Communicator> ours, const Call& call, const Choice& choice);
  // NCCL has taken a call on an accelerated communicator.
  void note_nccl(std::shared_ptr<Communicator> ours, DeviceStream stream);
  // Handles are there when the group has ended.
  void note_new(const ncclComm_t* comms, int count, bool blocking);
  // A window that NCCL has registered, or registers when the group ends; its handle is at `handle` then.
  struct RegisteredWindow {
    ncclComm_t comm;
    std::shared_ptr<Communicator> ours;
    void* memory;
    std::size_t bytes;
    const ncclWindow_t* handle;
  };
  void note_window(const RegisteredWindow& window);
  // The group ends with this, and none of ours starts.
  void note_failure(ncclResult_t code);

 private:
  struct Deferred {
    std::shared_ptr<Communicator> ours;
    Call call;
    Choice choice;
  };
  struct Nccl {
    std::shared_ptr<Communicator> ours;
    DeviceStream stream;
    std::uint64_t capture;
  };
  struct New {
    const ncclComm_t* comms;
    int count;
    bool blocking;
  };
  struct Contents {
    std::vector<Deferred> ours;
    std::vector<Nccl> nccl;
    std::vector<New> made;
    std::vector<RegisteredWindow> windows;
    ncclResult_t failure = ncclSuccess;
  };

  static void open_windows_of(const std::vector<RegisteredWindow>& registered);
  static ncclResult_t run(Contents& contents);

  int depth_ = 0;
  Contents contents_;
};

// Makes these known, now or at the end of the group.
void note_new_communicators(const ncclComm_t* comms, int count, bool blocking);

}  // namespace busbw::gpu

// ncclGroupStart to ncclGroupEnd of one thread. The real NCCL's group is open all the while, and takes every call that
// is its own at once; calls of ours wait for the end of the outermost group.
//
// Of each communicator a group is one piece of work, as in NCCL: it comes behind all that is in any of the streams
// which the group uses on that communicator, and whatever comes into one of them later comes behind the whole of it.
#pragma once

#include <functional>
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
  // ncclGroupSimulateEnd: NCCL tells what the group would take, ours as NCCL would do them, and none of its calls runs.
  ncclResult_t simulate_end(const std::function<ncclResult_t()>& by_nccl);

  // Inside a group only.
  void defer(ncclComm_t comm, std::shared_ptr<Communicator> ours, const Call& call, const Choice& choice);
  // A collective, whoever does it.
  void count(ncclComm_t comm, const std::shared_ptr<Communicator>& ours);
  // NCCL has taken a call on an accelerated communicator, of so many collectives: one or none.
  void note_nccl(ncclComm_t comm, std::shared_ptr<Communicator> ours, DeviceStream stream, int collectives);
  // Handles are there when the group has ended.
  struct New {
    const ncclComm_t* comms;
    int count;
    Wishes wishes;
    ncclComm_t parent;
  };
  void note_new(const New& made);
  // A window that NCCL has registered, or registers when the group ends; its handle is at `handle` then.
  struct RegisteredWindow {
    ncclComm_t comm;
    std::shared_ptr<Communicator> ours;
    void* memory;
    std::size_t bytes;
    const ncclWindow_t* handle;
  };
  void note_window(const RegisteredWindow& window);
  // One that NCCL has destroyed, or destroys when the group ends.
  void let_go(std::shared_ptr<Communicator> ours);
  // The group ends with this, and none of ours starts.
  void note_failure(ncclResult_t code);

 private:
  // What a group asks of one communicator.
  struct Part {
    ncclComm_t comm;
    std::shared_ptr<Communicator> ours;
    std::vector<Communicator::Chosen> calls;
    std::vector<DeviceStream> streams;  // in the order of their first use, NCCL's among them
    std::vector<DeviceStream> nccl;     // of calls that NCCL has taken
    int nccl_collectives = 0;           // among them
    Turn turn;                          // of those
    int counted = 0;                    // collectives, NCCL's too
    bool started = false;               // ours
  };
  struct Contents {
    std::vector<Part> parts;
    std::vector<New> made;
    std::vector<RegisteredWindow> windows;
    std::vector<std::shared_ptr<Communicator>> gone;
    ncclResult_t failure = ncclSuccess;
  };

  static void open_windows_of(const std::vector<RegisteredWindow>& registered);
  static ncclResult_t run(Contents& contents);
  static ncclResult_t conclude(const Contents& contents, ncclResult_t result);
  static void launch_ours(Contents& contents);
  static void attach_all(const std::vector<New>& made);
  friend void note_new_communicators(const New& made);
  Part& part_of(ncclComm_t comm, const std::shared_ptr<Communicator>& ours);

  int depth_ = 0;
  Contents contents_;
};

// Makes these known, now or at the end of the group.
void note_new_communicators(const Group::New& made);

}  // namespace busbw::gpu

// What this library knows of each NCCL communicator. Handles are the real NCCL's own.
#pragma once

#include <atomic>
#include <memory>
#include <shared_mutex>
#include <string>
#include <unordered_map>

#include "library/gpu/join/pending.h"
#include "library/gpu/join/room.h"
#include "library/gpu/join/wishes.h"
#include "library/gpu/run/communicator.h"

namespace busbw::gpu {

struct Entry {
  // Null where NCCL does everything, for this reason.
  std::shared_ptr<Communicator> ours;
  std::string reason;
  // Set where ranks could not find out what the others do.
  std::shared_ptr<Health> health;
  Wishes wishes;
  // Its place on the GPU, also where NCCL does everything.
  std::shared_ptr<Share> share;
  // Set while a non-blocking communicator is on its way, and how many that are made from it are not known here yet.
  std::shared_ptr<Pending> pending;
  std::atomic<int> making{0};
  // Threads of ours that ask NCCL about it stop: its memory goes.
  std::atomic<bool> aborted{false};
  // What a lost exchange may still write to.
  std::shared_ptr<void> parked;

  const Health* state() const { return ours ? &ours->health() : health.get(); }
};

class Registry {
 public:
  void put(ncclComm_t comm, std::shared_ptr<Entry> entry);
  // Null for a communicator that was not made through this library.
  std::shared_ptr<Entry> find(ncclComm_t comm) const;
  std::shared_ptr<Entry> take(ncclComm_t comm);

 private:
  mutable std::shared_mutex guard_;
  std::unordered_map<ncclComm_t, std::shared_ptr<Entry>> entries_;
};

Registry& registry();

}  // namespace busbw::gpu

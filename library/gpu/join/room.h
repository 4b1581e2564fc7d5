// Room on a GPU: how many blocks the kernels of each communicator may take, so that the kernels of all communicators of
// this process are on the GPU at once, in whatever order they were started (docs/decisions/0027).
//
// One communicator alone gets nearly the whole GPU. When another one is made, the ranks agree in the exchange that they
// make anyway on smaller grids for the new one and, from an agreed call on, for those that are there already.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "library/gpu/cuda/device.h"

namespace busbw::gpu {

// Blocks that each of `population` communicators may take on a GPU of so many multiprocessors: all of theirs together
// are no more than there are multiprocessors. Never less than 1.
int fair_share(int multiprocessors, int population);

class Room;

// One communicator's part of a GPU. Calls are counted, because every rank must change to a smaller grid at the same
// one.
class Share {
 public:
  Share(std::shared_ptr<Room> room, int limit) : room_(std::move(room)), limit_(limit) {}
  ~Share();
  Share(const Share&) = delete;
  Share& operator=(const Share&) = delete;

  // A call's number, counted from 0, and the blocks that it may take.
  struct Place {
    std::uint64_t call;
    int blocks;
  };
  // Of the next call, which is counted. Waits while frozen.
  Place next();
  // So many of the last calls do not take place, on this rank alone (ncclGroupSimulateEnd).
  void take_back(int calls);
  // Of the call after those that were counted.
  Place now() const;
  // The most blocks that a kernel may still take: one that runs, or one that a graph keeps.
  int held() const;
  // A graph keeps kernels of the present size for good.
  void keep();

  // The ranks have agreed on less than this rank's own room. Before the first call.
  void settle(int limit, std::uint64_t identity, int ranks);
  // Equal on all ranks of the communicator, and different for any other; 0 where NCCL does everything.
  std::uint64_t identity() const { return identity_; }
  int ranks() const { return ranks_; }

  // Calls that were counted; further ones wait until thaw(). Several communicators that are made at once, each on a
  // thread of its own, may freeze one side by side: none waits for another, as the ranks' threads come in any order.
  std::uint64_t freeze();
  void thaw();
  // Calls from number `from` on, counted from 0, take `limit` blocks at most.
  void narrow(std::uint64_t from, int limit);

 private:
  int limit_at(std::uint64_t call) const;

  struct Change {
    std::uint64_t from;
    int limit;
  };
  std::shared_ptr<Room> room_;
  mutable std::mutex guard_;
  std::condition_variable thawed_;
  int frozen_ = 0;
  int limit_;
  int kept_ = 0;
  std::uint64_t calls_ = 0;
  std::vector<Change> changes_;  // later ones are smaller ones
  // Other communicators that are made meanwhile look at these.
  std::atomic<std::uint64_t> identity_{0};
  std::atomic<int> ranks_{0};
};

class Room : public std::enable_shared_from_this<Room> {
 public:
  explicit Room(int multiprocessors) : multiprocessors_(multiprocessors) {}
  // Of the GPU in this process, which is one of so many that fill it.
  static std::shared_ptr<Room> of(const DeviceFacts& facts, int sharers = 1);
  // Multiprocessors for each of them.
  static int part_of(const DeviceFacts& facts, int sharers);

  // A place for a new communicator, with `most` blocks at most; 0 blocks where there is no room for `least`.
  std::shared_ptr<Share> enter(int most, int least);
  // Communicators that are there, those of NCCL alone included.
  int population() const;
  std::vector<std::shared_ptr<Share>> members() const;
  int multiprocessors() const { return multiprocessors_; }

 private:
  int multiprocessors_;
  mutable std::mutex guard_;
  mutable std::vector<std::weak_ptr<Share>> members_;
};

}  // namespace busbw::gpu

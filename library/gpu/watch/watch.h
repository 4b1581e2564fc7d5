// Notices at once that a rank of a communicator is gone, and tells the others. All ranks are on one host: each holds a
// socket to rank 0, which passes on what it learns.
//
//     rank 1 --+
//     rank 2 --+-- rank 0      a lost connection, or the end of the process at its other end, is a lost rank
//     rank 3 --+
//
// One thread of the process looks after all of its communicators and never calls the GPU: a communicator's memory is
// given back by a thread of its own. What has been lost poisons the Health of those who still use the communicator.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "library/gpu/watch/health.h"
#include "library/gpu/watch/watch_frame.h"

namespace busbw::gpu {

using WatchClock = std::chrono::steady_clock;

// Where to find rank 0, for its peers.
struct WatchAddress {
  std::uint64_t name = 0;
  WatchSecret secret{};
};

// How far a rank is with its calls on a communicator, for the watch to read at any time.
struct WatchStanding {
  std::atomic<std::uint64_t> calls{0};  // eager ones that were put into streams, which all ranks count alike
  std::atomic<bool> graphs{false};      // graphs hold calls too, and nobody counts their launches
  std::atomic<bool> blind{false};       // of such launches not even the end shows
};

// One rank's place in the watch of one communicator.
class WatchSeat {
 public:
  // Rank 0: listens from now on, so that peers which learn the address can connect.
  static std::unique_ptr<WatchSeat> listen(int ranks, std::shared_ptr<Health> health);
  // Any other rank. Both throw a Failure.
  static std::unique_ptr<WatchSeat> connect(const WatchAddress& address, int rank, int ranks,
                                            std::shared_ptr<Health> health);
  // Leaves at once, unless leave() was called.
  ~WatchSeat();
  WatchSeat(const WatchSeat&) = delete;
  WatchSeat& operator=(const WatchSeat&) = delete;

  WatchAddress address() const;
  // How each rank is called in messages, such as "pid 123 on GPU 0000:0f:00.0".
  void introduce(std::vector<std::string> who);
  // Until every rank is there; false if that takes until `deadline` or cannot be any more.
  bool wait_until_complete(WatchClock::time_point deadline);

  // A rank that goes is no loss as long as nobody needs it. `idle` says whether all calls of this rank are done; it may
  // ask the GPU. Without this every rank that goes is a loss.
  void attend(std::shared_ptr<const WatchStanding> standing, std::function<bool()> idle);

  // The peers' kernels get a moment to end by themselves, and this rank's own go on for as long: peers may wait for
  // what they send.
  void announce_abort();
  void announce_failure(const std::string& reason);
  // This rank is done and holds no peer's memory. `release` gives its own back: when nobody holds it any more, or after
  // `patience`.
  void leave(std::function<void()> release, std::chrono::milliseconds patience);

  struct Place;

 private:
  explicit WatchSeat(std::shared_ptr<Place> place) : place_(std::move(place)) {}
  std::shared_ptr<Place> place_;
};

}  // namespace busbw::gpu

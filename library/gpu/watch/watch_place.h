// What the watch knows about one rank's place in one communicator, and what follows from what happens there. No thread,
// no waiting: watch.cc does both.
#pragma once

#include <bitset>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "library/common/descriptor.h"
#include "library/gpu/watch/watch.h"

namespace busbw::gpu {

struct WatchConnection {
  Descriptor socket;
  Descriptor process;  // readable once the process at the other end has ended; not every kernel or container has it
  int rank = -1;       // of the other end; -1 before its hello
  WatchClock::time_point since = WatchClock::now();
};

struct WatchSeat::Place {
  int rank = 0;
  int ranks = 0;
  WatchAddress address;
  std::shared_ptr<Health> health;
  std::vector<std::string> who;
  std::shared_ptr<const WatchStanding> standing;
  std::function<bool()> idle;

  Descriptor listener;                       // of rank 0
  std::vector<WatchConnection> connections;  // of rank 0: peers and strangers; of others: rank 0
  bool complete = false;
  bool broken = false;  // can never be complete

  // Whether a rank that went is missing: not looked at yet; being looked at on another thread; no call needs it; one
  // does.
  enum class Missing : std::uint8_t { open, asked, no, yes };
  struct Loss {
    int rank;
    FrameKind kind;
    std::string text;
    std::uint64_t calls;  // that it had done
    WatchClock::time_point due;
    WatchClock::time_point end;  // of kernels that still wait
    WatchClock::time_point tell;
    Missing missing = Missing::open;
    int busy = 0;  // looks at graphs in a row that found them on their way
  };
  std::vector<Loss> losses;  // one for each rank at most
  // Starts `idle` on a thread that may ask the GPU, whose answer comes to on_answer().
  std::function<void(int lost)> ask;

  WatchClock::time_point own_end = WatchClock::time_point::max();  // of this rank's kernels, after its abort

  bool left = false;
  bool finished = false;               // to be forgotten
  std::bitset<max_ranks> closed;       // ranks that hold no one's memory any more
  std::function<void()> release;       // after leave()
  WatchClock::time_point release_due;  // then at the latest

  // Things that happen
  // -------------------------------------------------------------------------------------------------
  void on_frame(WatchConnection& connection, const Frame& frame);
  void on_nonsense(WatchConnection& connection);
  void on_gone(WatchConnection& connection);
  // This rank had put so many calls into streams, and all of them, and what graphs have launched, were done or not.
  void on_answer(int lost, std::uint64_t calls, bool idle_now, WatchClock::time_point now);
  // Whatever is due by now; returns when to come back.
  WatchClock::time_point on_time(WatchClock::time_point now);

  // Things that this rank says
  // -----------------------------------------------------------------------------------------
  void announce(const Frame& frame);  // to everybody, through rank 0
  void abort(std::uint64_t calls);
  // What this rank says when its process ends.
  void say_goodbye(std::uint64_t calls);
  void leave(std::function<void()> to_release, std::chrono::milliseconds patience);

 private:
  void on_hello(WatchConnection& connection, const Frame& frame);
  void lose(const Frame& frame);
  WatchClock::time_point on_loss(Loss& loss, WatchClock::time_point now);
  void judge(Loss& loss, WatchClock::time_point now);
  void miss(Loss& loss, WatchClock::time_point now);
  void relay(const Frame& frame, int except);
  void finish_if_all_closed();
  void finish();
  std::string sentence(const Loss& lost) const;
};

}  // namespace busbw::gpu

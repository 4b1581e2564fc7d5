// Tells a process that stands still (SIGSTOP) from one that was stopped together with us and goes on with us.
#pragma once

#include "engine/rendezvous/limits.h"
#include "engine/rendezvous/net/socket.h"

namespace busbw {

// Looks come each heartbeat. After Ctrl-Z and `fg` a rank may see another one stopped once before and once after; a
// third look in a row over `stopped_limit` means that it does not go on. A gap in our own looks, as on a loaded
// machine, cannot make a rank look stopped, nor hide that it is.
class StoppedLooks {
 public:
  bool pending() const { return looks_ > 0; }
  // True from the look on at which it counts as stopped.
  bool add(bool stopped, Clock::time_point now) {
    if (!stopped) {
      looks_ = 0;
      return false;
    }
    if (looks_++ == 0) since_ = now;
    return looks_ >= 3 && now - since_ >= stopped_limit - heartbeat_interval;
  }

 private:
  int looks_ = 0;
  Clock::time_point since_{};
};

}  // namespace busbw

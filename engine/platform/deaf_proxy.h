// Hydra's proxy, the parent of its ranks on each host, where it serves nobody any more.
#pragma once

#include <chrono>

namespace busbw {

// A signal that mpiexec gets while its proxy starts the ranks reaches children that still have the proxy's own
// handlers, and is lost. The proxy then sleeps until they end, passes nothing on and answers nothing; mpiexec waits for
// it, and further signals change nothing. A proxy that serves sleeps in poll for as long as a rank has its PMI
// descriptor open.
class DeafProxy {
 public:
  DeafProxy();

  // Whether there is something to look for: only in the first seconds of a rank.
  bool may_come() const;
  // Looks, twice a second at most. True where it was deaf in several looks in a row.
  bool found();
  int pid() const { return pid_; }

 private:
  using Clock = std::chrono::steady_clock;
  int pid_ = 0;  // 0: no rank of hydra
  int descriptor_ = -1;
  int looks_ = 0;
  Clock::time_point began_ = Clock::now(), next_ = began_;
};

}  // namespace busbw

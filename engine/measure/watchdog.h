// Makes sure that nothing hangs: aborts communicators when a rank failed or time is up, and ends the process if even
// that does not unblock it.
#pragma once

#include <semaphore.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/library_api/library.h"
#include "engine/measure/team.h"

namespace busbw {

// The communicators of this process, each of which is either destroyed in peace or aborted once.
class AbortSwitch {
 public:
  explicit AbortSwitch(const Library& library) : library_(library) {}
  void add(ncclComm_t comm);
  // True when the caller may destroy the communicator, false when it has been aborted.
  bool take(ncclComm_t comm);
  bool empty();
  void abort_all() noexcept;

 private:
  const Library& library_;
  std::mutex lock_;
  std::vector<ncclComm_t> comms_;
};

class Watchdog {
 public:
  // `limit_seconds` bounds every wait that is armed; 0: no limit. SIGINT, SIGTERM, SIGHUP (unless it is
  // ignored) and the end of whoever started this process become a failure of the team.
  Watchdog(Team& team, AbortSwitch& abort_switch, int limit_seconds);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // Called before the process is ended by force, so that what is buffered is not lost.
  void on_forced_end(std::function<void(const Failure&)> action);

  // Names what the waits of a thread belong to: "rank 3, all_reduce of 1024 bytes". For the sentence of a timeout.
  void describe(int thread, std::string subject);

  // While it lives, the calling thread waits for something that must not take longer than the limit.
  class Wait {
   public:
    Wait(Watchdog& watchdog, int thread, const char* what);
    ~Wait();
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

   private:
    Watchdog& watchdog_;
    int thread_;
  };

 private:
  struct Armed {
    std::atomic<std::int64_t> deadline{0};  // nanoseconds of the steady clock; 0: not waiting
    std::atomic<const char*> what{nullptr};
    std::string subject;  // guarded by subject_lock_
  };
  void watch();
  void look_for_overdue_waits();
  void end_by_force();

  Team& team_;
  AbortSwitch& abort_switch_;
  const int limit_seconds_;
  std::vector<Armed> armed_;
  std::mutex subject_lock_;
  std::function<void(const Failure&)> forced_end_;
  std::atomic<bool> stop_{false};
  std::string cut_off_sentence_;  // written before cut_off_ is set
  std::atomic<bool> cut_off_{false};
  sem_t wake_;
  std::thread thread_;
};

}  // namespace busbw

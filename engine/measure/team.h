// All threads of all processes of a job, and what they do together: wait, exchange numbers, and stop when one fails.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/rendezvous/rendezvous.h"

namespace busbw {

// How the threads of a process leave the barrier before what is timed.
enum class LineUp {
  spinning,  // all at once, within a fraction of a microsecond
  sleeping,  // woken one after the other by the system, as nccl-tests' threads are
};

class Team {
 public:
  Team(Rendezvous& rendezvous, int threads, LineUp line_up = LineUp::spinning);

  int threads() const { return threads_; }
  int all_threads() const { return threads_ * rendezvous_.placement().processes; }

  // Collective over all threads of all processes; throws PeerFailure once any of them has failed.
  void barrier();
  // The barrier at which timing starts.
  void line_up(int thread);
  // By process, then thread.
  std::vector<double> all_gather(int thread, double mine);

  // The first failure wins; other processes are told. Never throws, so that it may come from any thread.
  void fail(ExitCode code, const std::string& sentence) noexcept;
  const Failure* failure() const noexcept;
  void check() const;

  // Called once, from whichever thread learns of the failure first; at once where it is known already.
  void on_failure(const std::function<void()>& action);

 private:
  template <typename Action>
  void meet(const Action& by_the_last);
  void wait_past(std::uint32_t epoch) const;
  template <typename Condition>
  void sleep_until(std::unique_lock<std::mutex>& lock, const Condition& condition);
  void keep(const Failure& failure) noexcept;
  // What another process announced, or soon does where `code` may be but the consequence of it.
  const Failure* failure_elsewhere(ExitCode code) const noexcept;

  Rendezvous& rendezvous_;
  const int threads_;
  const bool crowded_;  // more ranks on this host than processors: waiting threads must give way
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<std::uint32_t> epoch_{0};
  const LineUp how_;
  std::mutex line_lock_;
  std::condition_variable line_changed_;
  int in_line_ = 0;
  std::uint64_t lines_released_ = 0;
  std::vector<double> mine_;
  std::vector<double> all_[2];  // alternate, so that a fast thread's next exchange leaves slow readers alone
  std::mutex failure_lock_;
  Failure kept_;
  std::function<void()> action_;
  std::atomic<bool> failed_{false};
};

}  // namespace busbw

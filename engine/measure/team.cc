// Waiting together: threads of a process spin on one word, the last one to arrive waits for the other processes.
#include "engine/measure/team.h"

#include <sched.h>
#include <time.h>

#include <chrono>
#include <thread>

#include "engine/platform/affinity.h"
#include "engine/platform/pause.h"

namespace busbw {

Team::Team(Rendezvous& rendezvous, int threads, LineUp line_up)
    : rendezvous_(rendezvous),
      threads_(threads),
      crowded_(threads * rendezvous.placement().local_processes > usable_processors()),
      how_(line_up),
      mine_(static_cast<std::size_t>(threads)) {
  rendezvous_.on_failure([this](const Failure& failure) { keep(failure); });
}

void Team::wait_past(std::uint32_t epoch) const {
  // A yield costs a system call of about a microsecond, so that spinning comes first where there are processors for
  // all.
  const int spins = crowded_ ? 50 : 20'000;
  constexpr int yields = 2'000;
  for (int i = 0; epoch_.load(std::memory_order_acquire) == epoch; ++i) {
    if ((i & 255) == 255) check();
    if (i < spins) {
      pause_processor();
    } else if (i < spins + yields) {
      sched_yield();
    } else {
      const timespec nap{0, 100'000};
      nanosleep(&nap, nullptr);
    }
  }
}

template <typename Action>
void Team::meet(const Action& by_the_last) {
  const std::uint32_t epoch = epoch_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 < threads_) return wait_past(epoch);
  arrived_.store(0, std::memory_order_relaxed);
  by_the_last();
  epoch_.store(epoch + 1, std::memory_order_release);
}

void Team::barrier() {
  check();
  meet([this] {
    if (rendezvous_.placement().processes > 1) rendezvous_.barrier();
  });
}

template <typename Condition>
void Team::sleep_until(std::unique_lock<std::mutex>& lock, const Condition& condition) {
  // Woken by the others long before; the limit is for the failure of one that will never come.
  constexpr std::chrono::milliseconds between_checks{50};
  while (!line_changed_.wait_for(lock, between_checks, condition)) check();
}

// nccl-tests times n calls of each thread from the moment at which that thread left this barrier, and averages over the
// threads. Its threads sleep in it: the last one goes on at once, the others when the system has woken them, some
// microseconds later. Who starts early waits for the others inside the timed calls, and that wait is part of its
// figure. So the same barrier, for the same figure.
void Team::line_up(int thread) {
  if (how_ == LineUp::spinning || threads_ == 1) return barrier();
  check();
  std::unique_lock lock(line_lock_);
  const std::uint64_t released = lines_released_;
  if (++in_line_ == threads_) line_changed_.notify_all();
  if (thread + 1 < threads_) return sleep_until(lock, [&] { return lines_released_ != released; });
  sleep_until(lock, [&] { return in_line_ == threads_; });
  if (rendezvous_.placement().processes > 1) rendezvous_.barrier();
  in_line_ = 0;
  ++lines_released_;
  line_changed_.notify_all();
}

std::vector<double> Team::all_gather(int thread, double mine) {
  check();
  mine_[static_cast<std::size_t>(thread)] = mine;
  const std::uint32_t parity = epoch_.load(std::memory_order_acquire) & 1U;
  meet([this, parity] {
    std::vector<double>& all = all_[parity];
    all.assign(static_cast<std::size_t>(all_threads()), 0.0);
    for (int t = 0; t < threads_; ++t) {
      const std::vector<double> column = rendezvous_.all_gather(mine_[static_cast<std::size_t>(t)]);
      for (std::size_t p = 0; p < column.size(); ++p)
        all[p * static_cast<std::size_t>(threads_) + static_cast<std::size_t>(t)] = column[p];
    }
  });
  return all_[parity];
}

void Team::keep(const Failure& failure) noexcept {
  std::function<void()> action;
  {
    const std::lock_guard lock(failure_lock_);
    if (failed_.load(std::memory_order_relaxed)) return;
    kept_ = failure;
    failed_.store(true, std::memory_order_release);
    action = action_;
  }
  if (action) action();
}

const Failure* Team::failure_elsewhere(ExitCode code) const noexcept {
  // A library sees in its shared memory at once that a rank has gone; what that rank said of it before (that it was
  // interrupted, say) comes over the network, and later where the machine is busy.
  const bool may_follow = code == ExitCode::nccl && rendezvous_.placement().processes > 1;
  const auto limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(may_follow ? 500 : 0);
  while (rendezvous_.failure() == nullptr && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return rendezvous_.failure();
}

void Team::fail(ExitCode code, const std::string& sentence) noexcept {
  // The failure that another process announced first explains more than what it caused here.
  const Failure* known = failure_elsewhere(code);
  const Failure mine{rendezvous_.placement().process, code, sentence};
  if (known == nullptr) rendezvous_.announce(mine);
  keep(known != nullptr ? *known : mine);
}

const Failure* Team::failure() const noexcept {
  if (failed_.load(std::memory_order_acquire)) return &kept_;
  return rendezvous_.failure();
}

void Team::check() const {
  if (const Failure* known = failure()) throw PeerFailure(known->code, known->sentence, known->process);
}

void Team::on_failure(const std::function<void()>& action) {
  {
    const std::lock_guard lock(failure_lock_);
    action_ = action;
    if (!failed_.load(std::memory_order_relaxed)) return;
  }
  // A rank may be lost before anybody asked to be told: else nobody ends the wait for it.
  if (action) action();
}

}  // namespace busbw

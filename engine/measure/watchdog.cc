// The watching thread sleeps on a semaphore: signal handlers and failing ranks post it, deadlines make it tick.
#include "engine/measure/watchdog.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "engine/platform/lifeline.h"

namespace busbw {
namespace {

using SteadyTime = std::chrono::steady_clock;

// A library gets this long to give up after an abort before the process is ended: all ranks must be gone within 10 s.
constexpr std::chrono::seconds patience{4};
// Where no communicator has been made yet there is nothing to abort: whoever waits for the others in its making is not
// let go by the library, and this only leaves time to threads that see the failure for themselves.
constexpr std::chrono::seconds patience_without_communicator{1};

// One wish often comes as several signals: `timeout` and terminals send to the group, launchers pass on what they get,
// Slurm signals the tasks and their srun. Who asks again after that time means it; a person is believed sooner.
constexpr std::chrono::seconds one_wish{6};
constexpr std::chrono::seconds one_wish_of_a_person{1};

std::atomic<int> caught_signal{0};
std::atomic<std::int64_t> first_signal_ns{0};  // of the steady clock; 0: none has come
std::atomic<sem_t*> signal_wakes{nullptr};

std::int64_t now_ns() { return std::chrono::nanoseconds(SteadyTime::now().time_since_epoch()).count(); }

void remember_signal(int signal) {
  const int error = errno;
  std::int64_t first = 0;
  if (first_signal_ns.compare_exchange_strong(first, now_ns())) {
    caught_signal.store(signal, std::memory_order_relaxed);
    if (sem_t* wake = signal_wakes.load(std::memory_order_acquire)) sem_post(wake);
  } else if (std::chrono::nanoseconds(now_ns() - first) >= (signal == SIGINT ? one_wish_of_a_person : one_wish)) {
    lifeline::end_by_signal(signal);
  }
  errno = error;
}

void catch_signals(sem_t* wake) {
  signal_wakes.store(wake, std::memory_order_release);
  struct sigaction action{};
  action.sa_handler = remember_signal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  // Whoever started this under nohup wants it to outlive the terminal.
  struct sigaction hangup{};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);
}

void give_signals_back() {
  signal_wakes.store(nullptr, std::memory_order_release);
  if (first_signal_ns.load() != 0) return;  // the rest of the wish may still come, while the record is ended
  struct sigaction hangup{};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) signal(SIGHUP, SIG_DFL);
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
}

const char* spelled(int signal) {
  if (signal == SIGINT) return "Ctrl-C";
  return signal == SIGHUP ? "SIGHUP" : "SIGTERM";
}

}  // namespace

void AbortSwitch::add(ncclComm_t comm) {
  const std::lock_guard lock(lock_);
  comms_.push_back(comm);
}

bool AbortSwitch::take(ncclComm_t comm) {
  const std::lock_guard lock(lock_);
  const auto found = std::find(comms_.begin(), comms_.end(), comm);
  if (found == comms_.end()) return false;
  comms_.erase(found);
  return true;
}

bool AbortSwitch::empty() {
  const std::lock_guard lock(lock_);
  return comms_.empty();
}

void AbortSwitch::abort_all() noexcept {
  std::vector<ncclComm_t> comms;
  {
    const std::lock_guard lock(lock_);
    comms.swap(comms_);
  }
  if (library_.nccl().comm_abort == nullptr) return;
  for (ncclComm_t comm : comms) library_.nccl().comm_abort(comm);
}

Watchdog::Watchdog(Team& team, AbortSwitch& abort_switch, int limit_seconds)
    : team_(team),
      abort_switch_(abort_switch),
      limit_seconds_(limit_seconds),
      armed_(static_cast<std::size_t>(team.threads())) {
  sem_init(&wake_, 0, 0);
  catch_signals(&wake_);
  team_.on_failure([this] { sem_post(&wake_); });
  lifeline::on_cut([this](const std::string& sentence) {
    cut_off_sentence_ = sentence;
    cut_off_.store(true, std::memory_order_release);
    sem_post(&wake_);
  });
  thread_ = std::thread([this] { watch(); });
}

Watchdog::~Watchdog() {
  lifeline::on_cut(nullptr);
  team_.on_failure(nullptr);
  stop_.store(true);
  sem_post(&wake_);
  thread_.join();
  give_signals_back();
  sem_destroy(&wake_);
}

void Watchdog::describe(int thread, std::string subject) {
  const std::lock_guard lock(subject_lock_);
  armed_[static_cast<std::size_t>(thread)].subject = std::move(subject);
}

void Watchdog::on_forced_end(std::function<void(const Failure&)> action) { forced_end_ = std::move(action); }

void Watchdog::look_for_overdue_waits() {
  for (std::size_t t = 0; t < armed_.size(); ++t) {
    const std::int64_t deadline = armed_[t].deadline.load(std::memory_order_acquire);
    if (deadline == 0 || now_ns() < deadline) continue;
    const char* what = armed_[t].what.load(std::memory_order_acquire);
    std::string subject;
    {
      const std::lock_guard lock(subject_lock_);
      subject = armed_[t].subject;
    }
    team_.fail(ExitCode::timeout, format("%s did not complete within %d s: it waited for %s",
                                         subject.empty() ? "thread 0" : subject.c_str(), limit_seconds_,
                                         what != nullptr ? what : "one operation"));
  }
}

void Watchdog::watch() {
  while (!stop_.load()) {
    if (limit_seconds_ > 0) {
      timespec until{};
      clock_gettime(CLOCK_REALTIME, &until);
      until.tv_nsec += 100'000'000;
      until.tv_sec += until.tv_nsec / 1'000'000'000;
      until.tv_nsec %= 1'000'000'000;
      sem_timedwait(&wake_, &until);
      look_for_overdue_waits();
    } else {
      sem_wait(&wake_);
    }
    if (const int signal = caught_signal.exchange(0))
      team_.fail(ExitCode::interrupted, format("stopped by %s", spelled(signal)));
    if (cut_off_.load(std::memory_order_acquire)) team_.fail(ExitCode::interrupted, cut_off_sentence_);
    if (team_.failure() == nullptr || stop_.load()) continue;
    const auto limit = abort_switch_.empty() ? patience_without_communicator : patience;
    std::thread aborting;
    try {
      aborting = std::thread([this] { abort_switch_.abort_all(); });
    } catch (const std::system_error&) {
      // No thread to be had: the process ends without the library's help.
    }
    const auto end = SteadyTime::now() + limit;
    while (!stop_.load() && SteadyTime::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (!stop_.load()) end_by_force();
    if (aborting.joinable()) aborting.join();
    return;
  }
}

void Watchdog::end_by_force() {
  const Failure failure = *team_.failure();
  if (forced_end_) forced_end_(failure);
  _exit(exit_status(failure.code));
}

Watchdog::Wait::Wait(Watchdog& watchdog, int thread, const char* what) : watchdog_(watchdog), thread_(thread) {
  if (watchdog_.limit_seconds_ == 0) return;
  Armed& armed = watchdog_.armed_[static_cast<std::size_t>(thread)];
  armed.what.store(what, std::memory_order_release);
  armed.deadline.store(now_ns() + std::int64_t{watchdog_.limit_seconds_} * 1'000'000'000, std::memory_order_release);
}

Watchdog::Wait::~Wait() {
  if (watchdog_.limit_seconds_ == 0) return;
  watchdog_.armed_[static_cast<std::size_t>(thread_)].deadline.store(0, std::memory_order_release);
}

}  // namespace busbw

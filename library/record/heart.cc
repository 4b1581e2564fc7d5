// The looks of the recorder's thread.
#include "library/record/heart.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <atomic>
#include <vector>

#include "library/record/communicators.h"
#include "library/record/host_clock.h"
#include "library/record/marks.h"

namespace busbw::record {

namespace {

constexpr timespec between{0, 500'000'000};

void* beat(void* argument) {
  Recording& recording = *static_cast<Recording*>(argument);
  const Header& header = recording.header();
  Rest rest;
  while (header.ended.load(std::memory_order_relaxed) == 0) {
    ::nanosleep(&between, nullptr);
    if (rest.is_due(header.calls.load(std::memory_order_relaxed)) && header.ended.load(std::memory_order_acquire) == 0)
      rest.looked(look_at_marks(recording));
  }
  return nullptr;
}

}  // namespace

bool look_at_marks(Recording& recording) {
  Header& header = recording.header();
  auto* pulses = reinterpret_cast<Pulse*>(reinterpret_cast<unsigned char*>(&header) + pulses_at);
  std::vector<Pulse> found;
  bool waits = false;
  for (Rank* rank : all_ranks()) {
    if (!rank->marks || !rank->row || rank->recording != &recording || found.size() == most_pulses) continue;
    Pulse pulse{};
    pulse.place = recording.place_of(rank->row);
    pulse.entered = rank->row->entered.load(std::memory_order_acquire);
    waits = rank->marks->look(pulse) || waits;
    found.push_back(pulse);
  }
  // Readers take what lies between two equal and even stamps.
  const std::uint32_t stamp = header.pulse_stamp.load(std::memory_order_relaxed) | 1;
  header.pulse_stamp.store(stamp, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  for (std::size_t i = 0; i < found.size(); ++i) pulses[i] = found[i];
  header.pulses.store(std::uint32_t(found.size()), std::memory_order_relaxed);
  header.pulse_ns.store(kernel_ns(), std::memory_order_relaxed);
  header.pulse_stamp.store(stamp + 1, std::memory_order_release);
  return waits;
}

void start_heart(Recording* recording) {
  static std::atomic<Recording*> of{nullptr};
  // A child of a fork has a recording of its own, and no thread yet.
  if (of.exchange(recording) != recording) start_thread("busbw-record", beat, recording);
}

bool start_thread(const char* name, void* (*work)(void*), void* argument) {
  sigset_t all, before;
  ::sigfillset(&all);
  // The program's signals are handled by its own threads.
  if (::pthread_sigmask(SIG_SETMASK, &all, &before) != 0) return false;
  pthread_t thread{};
  const bool started = ::pthread_create(&thread, nullptr, work, argument) == 0;
  if (started) {
    ::pthread_setname_np(thread, name);
    ::pthread_detach(thread);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

}  // namespace busbw::record

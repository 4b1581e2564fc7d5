// Waiting for a flag in shared memory: quick while the wait is short, kind to the machine when it is long.
#pragma once

#include <sched.h>
#include <time.h>

#include <chrono>
#include <functional>

namespace busbw {

inline void cpu_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Polls `ready`; calls `poll` now and then, and once more before it sleeps. With more processes than cores the one that
// is waited for may need this core, so spinning is short.
template <typename Ready>
void spin_until(const Ready& ready, const std::function<void()>& poll, bool crowded) {
  const int spins = crowded ? 50 : 2000;
  for (int spin = 0; spin < spins; ++spin) {
    if (ready()) return;
    cpu_pause();
  }
  const auto start = std::chrono::steady_clock::now();
  const auto sleep_after = std::chrono::milliseconds(crowded ? 20 : 200);
  for (;;) {
    for (int turn = 0; turn < 16; ++turn) {
      if (ready()) return;
      sched_yield();
    }
    poll();
    if (std::chrono::steady_clock::now() - start < sleep_after) continue;
    if (ready()) return;
    const timespec nap{.tv_sec = 0, .tv_nsec = 50'000};
    nanosleep(&nap, nullptr);
  }
}

}  // namespace busbw

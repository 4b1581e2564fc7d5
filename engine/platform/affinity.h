// How many processors this process may run on.
#pragma once

#include <sched.h>

#include <thread>

namespace busbw {

inline int usable_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace busbw

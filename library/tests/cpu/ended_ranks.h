// Ranks as processes that a test ends, and how long that took to be noticed.
#pragma once
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "library/cpu/bootstrap.h"
#include "library/tests/cpu/ranks.h"

namespace busbw::cpu::test {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// A process that is rank `rank`, runs `body` and ends.
inline pid_t start_process(const ncclUniqueId& id, int ranks, int rank, const RankBody& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    run_rank(id, ranks, rank, body);
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  return child;
}

inline int wait_for(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

inline ncclResult_t sum_one(ncclComm_t comm) {
  float value = 1;
  return ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr);
}

}  // namespace busbw::cpu::test

// Ranks for tests, as threads or as processes, over our CPU library in NCCL's place.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "library/common/nccl/functions.h"
#include "library/tests/gpu/fake_devices.h"

extern "C" {
#define BUSBW_DECLARE(member, function) function##_t function;
BUSBW_REAL_FUNCTIONS(BUSBW_DECLARE)
#undef BUSBW_DECLARE
ncclGetUniqueId_t ncclGetUniqueId;
busbwExplainCall_t busbwExplainCall;
busbwLibraryName_t busbwLibraryName;
}

namespace busbw::gpu::test {

// Before anything looks for an NCCL.
inline const int nccl_is_the_cpu_library = ::setenv("BUSBW_REAL_NCCL", BUSBW_TEST_CPU_LIBRARY, 1);

using RankBody = std::function<void(ncclComm_t comm, int rank)>;

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

inline ncclUniqueId new_id() {
  ncclUniqueId id{};
  EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess) << ncclGetLastError(nullptr);
  return id;
}

inline std::string explain(ncclComm_t comm, Collective collective, std::size_t count, ncclDataType_t type = ncclFloat32,
                           ncclRedOp_t op = ncclSum, const void* send = nullptr, const void* recv = nullptr) {
  char text[512] = "";
  EXPECT_EQ(busbwExplainCall(comm, int(collective), send, recv, count, type, op, text, sizeof text), 0);
  return text;
}

inline bool accelerated(ncclComm_t comm) { return !contains(explain(comm, Collective::all_reduce, 256), "nccl:"); }

inline void run_rank(const ncclUniqueId& id, int ranks, int rank, const RankBody& body) {
  ncclComm_t comm = nullptr;
  ASSERT_EQ(ncclCommInitRank(&comm, ranks, id, rank), ncclSuccess) << ncclGetLastError(nullptr);
  body(comm, rank);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess) << ncclGetLastError(nullptr);
}

inline void run_threads(int ranks, const RankBody& body) {
  const ncclUniqueId id = new_id();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back([&, rank] { run_rank(id, ranks, rank, body); });
  for (std::thread& thread : threads) thread.join();
}

// A process that runs `body` and ends, with 1 if an expectation failed in it.
inline pid_t start_process(const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    body();
    std::fflush(nullptr);
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  return child;
}

inline int wait_for(pid_t child) {
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

inline void run_processes(int ranks, const RankBody& body) {
  const ncclUniqueId id = new_id();
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    children.push_back(start_process([&] { run_rank(id, ranks, rank, body); }));
  }
  for (const pid_t child : children) EXPECT_EQ(wait_for(child), 0);
}

// Every rank's number, added up by the NCCL behind us (a reduction that we never take).
inline void barrier(ncclComm_t comm) {
  std::int64_t value = 1;
  std::int64_t sum = 0;
  ASSERT_EQ(ncclReduce(&value, &sum, 1, ncclInt64, ncclSum, 0, comm, nullptr), ncclSuccess) << ncclGetLastError(comm);
  ASSERT_EQ(ncclBroadcast(&value, &value, 0, ncclInt64, 0, comm, nullptr), ncclSuccess);
}

// True once `condition` holds, within seconds.
template <class Condition>
bool eventually(Condition condition, int milliseconds = 5000) {
  for (int i = 0; i < milliseconds; ++i) {
    if (condition()) return true;
    ::usleep(1000);
  }
  return condition();
}

}  // namespace busbw::gpu::test

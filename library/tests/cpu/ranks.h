// Ranks for tests: threads of this process, child processes, or both; and one checked collective call.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <thread>
#include <vector>

#include "library/tests/cpu/api.h"
#include "library/tests/cpu/reference.h"

namespace busbw::cpu::test {

using RankBody = std::function<void(ncclComm_t comm, int rank)>;

inline ncclUniqueId new_id() {
  ncclUniqueId id;
  EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  return id;
}

inline void run_rank(const ncclUniqueId& id, int ranks, int rank, const RankBody& body) {
  ncclComm_t comm = nullptr;
  ASSERT_EQ(ncclCommInitRank(&comm, ranks, id, rank), ncclSuccess) << ncclGetLastError(nullptr);
  body(comm, rank);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

inline void run_threads(const ncclUniqueId& id, int ranks, int first, int count, const RankBody& body) {
  std::vector<std::thread> threads;
  for (int rank = first; rank < first + count; ++rank) {
    threads.emplace_back([&, rank] { run_rank(id, ranks, rank, body); });
  }
  for (std::thread& thread : threads) thread.join();
}

struct Placement {
  int processes = 1;
  int threads = 2;
  int ranks() const { return processes * threads; }
};

inline std::string name_of(const Placement& placement) {
  return std::to_string(placement.processes) + "ProcessesOf" + std::to_string(placement.threads) + "Threads";
}

// Children report through their exit status; what failed in them they print themselves.
inline void run_placed(const Placement& placement, const RankBody& body) {
  const ncclUniqueId id = new_id();
  if (placement.processes == 1) return run_threads(id, placement.ranks(), 0, placement.threads, body);
  std::vector<pid_t> children;
  for (int process = 0; process < placement.processes; ++process) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      run_threads(id, placement.ranks(), process * placement.threads, placement.threads, body);
      ::_exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "a process of ranks failed, status " << status;
  }
}

inline ncclResult_t call_api(const Collective& call, ncclRedOp_t op, ncclComm_t comm) {
  switch (call.kind) {
    case CollectiveKind::all_reduce:
      return ncclAllReduce(call.send, call.recv, call.count, call.type, op, comm, nullptr);
    case CollectiveKind::all_gather:
      return ncclAllGather(call.send, call.recv, call.count, call.type, comm, nullptr);
    case CollectiveKind::reduce_scatter:
      return ncclReduceScatter(call.send, call.recv, call.count, call.type, op, comm, nullptr);
    case CollectiveKind::broadcast:
      return ncclBroadcast(call.send, call.recv, call.count, call.type, call.root, comm, nullptr);
    case CollectiveKind::reduce:
      return ncclReduce(call.send, call.recv, call.count, call.type, op, call.root, comm, nullptr);
    case CollectiveKind::all_to_all:
      return ncclAlltoAll(call.send, call.recv, call.count, call.type, comm, nullptr);
    case CollectiveKind::gather:
      return ncclGather(call.send, call.recv, call.count, call.type, call.root, comm, nullptr);
    case CollectiveKind::scatter:
      return ncclScatter(call.send, call.recv, call.count, call.type, call.root, comm, nullptr);
    case CollectiveKind::internal:
      break;
  }
  return ncclInternalError;
}

struct BufferChoice {
  bool in_place = false;
  // Bytes beyond an aligned address.
  std::size_t offset = 0;
  // From ncclMemAlloc instead of new.
  bool shared = false;
};

class Buffer {
 public:
  Buffer(std::size_t bytes, const BufferChoice& choice) : choice_(choice) {
    const std::size_t size = bytes + choice.offset + 64;
    if (choice.shared) {
      EXPECT_EQ(ncclMemAlloc(&base_, size), ncclSuccess);
    } else {
      base_ = ::operator new(size);
    }
    std::memset(base_, 0xa5, size);
  }
  ~Buffer() { choice_.shared ? void(ncclMemFree(base_)) : ::operator delete(base_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  unsigned char* data() { return static_cast<unsigned char*>(base_) + choice_.offset; }

 private:
  BufferChoice choice_;
  void* base_ = nullptr;
};

// Runs the call on this rank with the given inputs and compares every byte of its receive buffer and of the 16 behind
// it.
inline void check_call(Collective call, const Inputs& inputs, const BufferChoice& choice, ncclComm_t comm, int rank) {
  const auto ranks = int(inputs.send.size());
  const std::size_t element = element_size(call.type);
  const Bytes& given = inputs.send[std::size_t(rank)];
  const std::size_t recv_bytes = recv_elements(call, ranks) * element;
  const std::size_t own_place = std::size_t(rank) * call.count * element;
  Buffer send(given.size(), choice);
  Buffer recv(recv_bytes + 16, choice);
  // In place, as NCCL defines it: the send buffer lies within the receive buffer, or the other way round.
  const bool recv_holds_send = call.kind == CollectiveKind::all_gather || call.kind == CollectiveKind::gather;
  const bool send_holds_recv = call.kind == CollectiveKind::reduce_scatter || call.kind == CollectiveKind::scatter;
  unsigned char* from = send.data();
  unsigned char* to = recv.data();
  if (choice.in_place && recv_holds_send) from = recv.data() + own_place;
  if (choice.in_place && send_holds_recv) to = send.data() + own_place;
  if (choice.in_place && !recv_holds_send && !send_holds_recv) from = recv.data();
  if (!given.empty()) std::memcpy(from, given.data(), given.size());
  call.send = from;
  call.recv = to;

  ncclRedOp_t op = ncclRedOp_t(int(call.reduction));
  if (call.reduction == Reduction::premul_sum) {
    std::uint64_t scalar = inputs.scalars[std::size_t(rank)];
    ASSERT_EQ(ncclRedOpCreatePreMulSum(&op, &scalar, call.type, ncclScalarHostImmediate, comm), ncclSuccess);
  }
  ASSERT_EQ(call_api(call, op, comm), ncclSuccess) << ncclGetLastError(comm);
  if (call.reduction == Reduction::premul_sum) {
    ASSERT_EQ(ncclRedOpDestroy(op, comm), ncclSuccess);
  }
  const Bytes wanted = expected(call, inputs, rank);
  // memcmp takes no null pointer, not even for nothing.
  ASSERT_EQ(wanted.empty() ? 0 : std::memcmp(to, wanted.data(), wanted.size()), 0)
      << spelled(describe(call), call.count) << " on rank " << rank << " of " << ranks
      << (choice.in_place ? " in place" : "") << " offset " << choice.offset;
  if (to == recv.data()) {
    for (int i = 0; i < 16; ++i)
      ASSERT_EQ(to[recv_bytes + std::size_t(i)], 0xa5) << "written beyond the receive buffer";
  }
}

}  // namespace busbw::cpu::test

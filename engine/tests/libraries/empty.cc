// A library that does nothing and returns at once: what a run then shows is the engine's own overhead. Tests and bench
// only.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "busbw/nccl_abi.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

static std::atomic<unsigned long long> calls{0};

#ifndef BUSBW_TEST_NAME
#define BUSBW_TEST_NAME "busbw empty CPU library"
#endif

EXPORT const char* busbwLibraryName() { return BUSBW_TEST_NAME " (tests only)"; }
EXPORT ncclResult_t ncclGetVersion(int* version) { return *version = 22809, ncclSuccess; }
EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId* id) { return std::memset(id, 0, sizeof *id), ncclSuccess; }
EXPORT ncclResult_t ncclCommInitRank(ncclComm_t* comm, int, ncclUniqueId, int) {
  *comm = static_cast<ncclComm_t>(std::malloc(1));
  return ncclSuccess;
}
EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm) { return std::free(comm), ncclSuccess; }
EXPORT const char* ncclGetErrorString(ncclResult_t) { return "no error"; }
EXPORT ncclResult_t ncclGroupStart() { return ncclSuccess; }
EXPORT ncclResult_t ncclGroupEnd() { return ncclSuccess; }
EXPORT ncclResult_t ncclAllReduce(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, ncclStream_t) {
  calls.fetch_add(1, std::memory_order_relaxed);
  return ncclSuccess;
}
// With BUSBW_TEST_EXPLAIN the question, and what it would hand over to; "hostile" is answered with what no line may
// hold.
EXPORT int busbwExplainCall(ncclComm_t, int collective, const void*, const void*, size_t count, ncclDataType_t type,
                            ncclRedOp_t op, char* text, size_t size) {
  const char* wanted = std::getenv("BUSBW_TEST_EXPLAIN");
  if (wanted == nullptr) return 1;
  if (std::strcmp(wanted, "hostile") == 0) return std::memset(text, '\n', size), 0;
  const char* real = std::getenv("BUSBW_REAL_NCCL");
  std::snprintf(text, size, "%d %zu %d %d, NCCL %s", collective, count, int(type), int(op), real ? real : "none");
  return 0;
}
// Of all ranks of this process: what fake_nvml.cc takes for traffic.
EXPORT unsigned long long busbw_test_calls() { return calls.load(); }

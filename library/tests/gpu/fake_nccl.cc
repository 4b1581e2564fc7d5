// An NCCL that only checks that every argument arrives where it belongs (nccl_calls.h); it has no ncclCommGrow.
#include "library/tests/gpu/nccl_calls.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

using namespace busbw::gpu::test;  // NOLINT: a test's library

namespace {

// Integers and pointers come in whole registers; of narrower ones the upper half is undefined.
ncclResult_t check(int count, const long (&values)[11]) {
  for (int i = 0; i < count; ++i)
    if (static_cast<int>(values[i]) != i + 1) return ncclInvalidArgument;
  return ncclSuccess;
}

bool is_id(const ncclUniqueId& id, int position) {
  for (const char byte : id.internal)
    if (byte != position) return false;
  return true;
}

int profiling_calls = 0;

}  // namespace

EXPORT int fakeNcclProfilingCalls() { return profiling_calls; }

#define FORWARDED(name) \
  GENERIC(name)         \
  GENERIC(p##name)

#define GENERIC(name)                                                                                              \
  EXPORT double name(long a, long b, long c, long d, long e, long f, long g, double h, long i, long j, double k) { \
    const bool right = a == 1 && b == 2 && c == 3 && d == 4 && e == 5 && f == 6 && g == 7 && h == 8.5 && i == 9 && \
                       j == 10 && k == 11.5;                                                                       \
    return right ? generic_answer(#name) : -1;                                                                     \
  }

// By both of its names; those for profilers are counted.
#define TYPED(name)                                                                                                  \
  EXPORT ncclResult_t name(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j, long k) { \
    return check(arity(static_cast<name##_t*>(nullptr)), {a, b, c, d, e, f, g, h, i, j, k});                         \
  }                                                                                                                  \
  EXPORT ncclResult_t p##name(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j,        \
                              long k) {                                                                              \
    ++profiling_calls;                                                                                               \
    return check(arity(static_cast<name##_t*>(nullptr)), {a, b, c, d, e, f, g, h, i, j, k});                         \
  }

// Typed below.
#define ncclCommGrow fake_nccl_has_no_ncclCommGrow
#define pncclCommGrow fake_nccl_has_no_pncclCommGrow
#define ncclGetVersion fake_nccl_ncclGetVersion
#define pncclGetVersion fake_nccl_pncclGetVersion
BUSBW_FORWARDED_FUNCTIONS(FORWARDED)
#undef ncclCommGrow
#undef ncclGetVersion
#undef pncclCommGrow
#undef pncclGetVersion

PLAIN_FUNCTIONS(TYPED)

EXPORT ncclResult_t ncclCommInitRank(ncclComm_t*, int ranks, ncclUniqueId id, int rank) {
  return ranks == 2 && is_id(id, 3) && rank == 4 ? ncclSuccess : ncclInvalidArgument;
}
EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t*, int ranks, ncclUniqueId id, int rank, ncclConfig_t*) {
  return ranks == 2 && is_id(id, 3) && rank == 4 ? ncclSuccess : ncclInvalidArgument;
}
EXPORT ncclResult_t ncclGetVersion(int* version) { return *version = 22809, ncclSuccess; }
EXPORT const char* ncclGetLastError(ncclComm_t) { return "the fake's last error"; }
EXPORT const char* ncclGetErrorString(ncclResult_t) { return "the fake's error"; }

// With a place for a new communicator among their arguments.
EXPORT ncclResult_t ncclCommInitRankScalable(ncclComm_t*, int b, int c, int d, long e, const ncclConfig_t* f) {
  return b == 2 && c == 3 && d == 4 && e == 5 && f ? ncclSuccess : ncclInvalidArgument;
}
EXPORT ncclResult_t ncclCommInitAll(ncclComm_t*, int b, long c) {
  return b == 2 && c == 3 ? ncclSuccess : ncclInvalidArgument;
}
EXPORT ncclResult_t ncclCommSplit(long a, int b, int c, ncclComm_t*, const ncclConfig_t* e) {
  return a == 1 && b == 2 && c == 3 && e ? ncclSuccess : ncclInvalidArgument;
}
EXPORT ncclResult_t ncclCommShrink(long a, long b, int c, ncclComm_t*, const ncclConfig_t* e, int f) {
  return a == 1 && b == 2 && c == 3 && e && f == 6 ? ncclSuccess : ncclInvalidArgument;
}
EXPORT ncclResult_t ncclCommGetAsyncError(long a, ncclResult_t*) { return a == 1 ? ncclSuccess : ncclInvalidArgument; }

// Of an NCCL that is newer than busbw: one that puts work on a stream, one that cannot.
EXPORT ncclResult_t ncclFutureAllReduce(void*) { return ncclSuccess; }
EXPORT ncclResult_t pncclFutureAllReduce(void*) { return ncclSuccess; }
EXPORT ncclResult_t ncclGetFuture(void*) { return ncclSuccess; }

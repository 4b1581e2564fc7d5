// NCCL with a fault: after every all-reduce, the first elements of one rank's result are spoiled on the GPU. Tests
// only.
//
// BUSBW_TEST_INNER is the NCCL to spoil, BUSBW_TEST_RANK the rank (default 0), BUSBW_TEST_ELEMENTS how many elements
// (default 1). Spoiled elements have all bits set, which no floating result of a test pattern has.
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "busbw/nccl_abi.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

long setting(const char* name, long otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atol(text) : otherwise;
}

template <typename Function>
Function* inner(const char* symbol) {
  static void* handle = dlopen(std::getenv("BUSBW_TEST_INNER"), RTLD_NOW | RTLD_LOCAL);
  return handle != nullptr ? reinterpret_cast<Function*>(dlsym(handle, symbol)) : nullptr;
}

std::size_t width_of(ncclDataType_t type) {
  constexpr std::size_t widths[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return widths[type];
}

// Calls of an open group reach the stream only when the outermost group ends.
struct Result {
  void* memory;
  std::size_t bytes;
  ncclStream_t stream;
};
thread_local std::vector<Result> pending;
thread_local int depth = 0;

ncclResult_t spoil_pending() {
  using Memset = int(unsigned long long, unsigned char, std::size_t, ncclStream_t);
  static auto* memset_async = reinterpret_cast<Memset*>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemsetD8Async"));
  ncclResult_t result = ncclSuccess;
  for (const Result& r : pending)
    if (memset_async(reinterpret_cast<unsigned long long>(r.memory), 0xff, r.bytes, r.stream) != 0)
      result = ncclUnhandledCudaError;
  pending.clear();
  return result;
}

}  // namespace

EXPORT const char* busbwLibraryName() { return "busbw corrupting GPU library (tests only)"; }
EXPORT ncclResult_t ncclGetVersion(int* version) { return inner<ncclGetVersion_t>("ncclGetVersion")(version); }
EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId* id) { return inner<ncclGetUniqueId_t>("ncclGetUniqueId")(id); }
EXPORT ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return inner<ncclCommInitRank_t>("ncclCommInitRank")(comm, ranks, id, rank);
}
EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm) { return inner<ncclCommDestroy_t>("ncclCommDestroy")(comm); }
EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm) { return inner<ncclCommAbort_t>("ncclCommAbort")(comm); }
EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  return inner<ncclCommGetAsyncError_t>("ncclCommGetAsyncError")(comm, error);
}
EXPORT const char* ncclGetErrorString(ncclResult_t r) { return inner<ncclGetErrorString_t>("ncclGetErrorString")(r); }
EXPORT const char* ncclGetLastError(ncclComm_t c) { return inner<ncclGetLastError_t>("ncclGetLastError")(c); }
EXPORT ncclResult_t ncclGroupStart() { return ++depth, inner<ncclGroupStart_t>("ncclGroupStart")(); }
EXPORT ncclResult_t ncclGroupEnd() {
  const ncclResult_t ended = inner<ncclGroupEnd_t>("ncclGroupEnd")();
  if (--depth > 0 || ended != ncclSuccess) return ended;
  return spoil_pending();
}
EXPORT ncclResult_t ncclAllReduce(const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                  ncclComm_t comm, ncclStream_t stream) {
  const ncclResult_t done = inner<ncclAllReduce_t>("ncclAllReduce")(send, recv, count, type, op, comm, stream);
  int rank = -1;
  inner<ncclCommUserRank_t>("ncclCommUserRank")(comm, &rank);
  if (done != ncclSuccess || rank != setting("BUSBW_TEST_RANK", 0)) return done;
  const auto elements = static_cast<std::size_t>(setting("BUSBW_TEST_ELEMENTS", 1));
  pending.push_back({recv, std::min(count, elements) * width_of(type), stream});
  return depth == 0 ? spoil_pending() : done;
}

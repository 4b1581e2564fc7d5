// The CPU library with a fault: after every call one chosen element of one rank's result has a wrong bit. Tests only.
//
// BUSBW_TEST_INNER is the library to spoil, BUSBW_TEST_RANK the rank (default 0), BUSBW_TEST_ELEMENT the element
// (default 0), BUSBW_TEST_HANG=1 makes the chosen rank sleep in its first call instead.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "busbw/nccl_abi.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

long setting(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atol(text) : 0;
}

template <typename Function>
Function* inner(const char* symbol) {
  static void* handle = dlopen(std::getenv("BUSBW_TEST_INNER"), RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<Function*>(dlsym(handle, symbol));
}

std::size_t width_of(ncclDataType_t type) {
  constexpr std::size_t widths[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return widths[type];
}

// Results of calls that are complete only when the outermost group ends.
struct Result {
  unsigned char* memory;
  std::size_t count;
  std::size_t width;
};
thread_local std::vector<Result> pending;
thread_local int depth = 0;

void spoil_pending() {
  const auto element = static_cast<std::size_t>(setting("BUSBW_TEST_ELEMENT"));
  // Eight units of the last place: more than any tolerance.
  for (const Result& result : pending)
    if (element < result.count) result.memory[element * result.width] ^= 0x08;
  pending.clear();
}

ncclResult_t spoil(ncclResult_t done, ncclComm_t comm, void* recv, std::size_t count, ncclDataType_t type) {
  int rank = -1;
  inner<ncclCommUserRank_t>("ncclCommUserRank")(comm, &rank);
  if (rank != setting("BUSBW_TEST_RANK")) return done;
  if (setting("BUSBW_TEST_HANG") == 1) sleep(3600);
  pending.push_back({static_cast<unsigned char*>(recv), count, width_of(type)});
  if (depth == 0) spoil_pending();
  return done;
}

}  // namespace

EXPORT const char* busbwLibraryName() { return "busbw corrupting CPU library (tests only)"; }
EXPORT ncclResult_t ncclGetVersion(int* version) { return inner<ncclGetVersion_t>("ncclGetVersion")(version); }
EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId* id) { return inner<ncclGetUniqueId_t>("ncclGetUniqueId")(id); }
EXPORT ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return inner<ncclCommInitRank_t>("ncclCommInitRank")(comm, ranks, id, rank);
}
EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm) { return inner<ncclCommDestroy_t>("ncclCommDestroy")(comm); }
EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm) { return inner<ncclCommAbort_t>("ncclCommAbort")(comm); }
EXPORT const char* ncclGetErrorString(ncclResult_t r) { return inner<ncclGetErrorString_t>("ncclGetErrorString")(r); }
EXPORT const char* ncclGetLastError(ncclComm_t c) { return inner<ncclGetLastError_t>("ncclGetLastError")(c); }
EXPORT ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                             ncclScalarResidence_t residence, ncclComm_t comm) {
  return inner<ncclRedOpCreatePreMulSum_t>("ncclRedOpCreatePreMulSum")(op, scalar, type, residence, comm);
}
EXPORT ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  return inner<ncclRedOpDestroy_t>("ncclRedOpDestroy")(op, comm);
}
EXPORT ncclResult_t ncclGroupStart() { return ++depth, inner<ncclGroupStart_t>("ncclGroupStart")(); }
EXPORT ncclResult_t ncclGroupEnd() {
  const ncclResult_t ended = inner<ncclGroupEnd_t>("ncclGroupEnd")();
  if (--depth == 0) spoil_pending();
  return ended;
}
EXPORT ncclResult_t ncclAllReduce(const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                  ncclComm_t comm, ncclStream_t stream) {
  return spoil(inner<ncclAllReduce_t>("ncclAllReduce")(send, recv, count, type, op, comm, stream), comm, recv, count,
               type);
}
EXPORT ncclResult_t ncclReduceScatter(const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                      ncclComm_t comm, ncclStream_t stream) {
  return spoil(inner<ncclReduceScatter_t>("ncclReduceScatter")(send, recv, count, type, op, comm, stream), comm, recv,
               count, type);
}
EXPORT ncclResult_t ncclAllGather(const void* send, void* recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                                  ncclStream_t stream) {
  return spoil(inner<ncclAllGather_t>("ncclAllGather")(send, recv, count, type, comm, stream), comm, recv, count, type);
}
EXPORT ncclResult_t ncclBroadcast(const void* send, void* recv, size_t count, ncclDataType_t type, int root,
                                  ncclComm_t comm, ncclStream_t stream) {
  return spoil(inner<ncclBroadcast_t>("ncclBroadcast")(send, recv, count, type, root, comm, stream), comm, recv, count,
               type);
}
EXPORT ncclResult_t ncclReduce(const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               int root, ncclComm_t comm, ncclStream_t stream) {
  return spoil(inner<ncclReduce_t>("ncclReduce")(send, recv, count, type, op, root, comm, stream), comm, recv, count,
               type);
}
EXPORT ncclResult_t ncclAlltoAll(const void* send, void* recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                                 ncclStream_t stream) {
  return spoil(inner<ncclAlltoAll_t>("ncclAlltoAll")(send, recv, count, type, comm, stream), comm, recv, count, type);
}
EXPORT ncclResult_t ncclGather(const void* send, void* recv, size_t count, ncclDataType_t type, int root,
                               ncclComm_t comm, ncclStream_t stream) {
  return spoil(inner<ncclGather_t>("ncclGather")(send, recv, count, type, root, comm, stream), comm, recv, count, type);
}
EXPORT ncclResult_t ncclScatter(const void* send, void* recv, size_t count, ncclDataType_t type, int root,
                                ncclComm_t comm, ncclStream_t stream) {
  return spoil(inner<ncclScatter_t>("ncclScatter")(send, recv, count, type, root, comm, stream), comm, recv, count,
               type);
}
EXPORT ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                             ncclStream_t stream) {
  return inner<ncclSend_t>("ncclSend")(send, count, type, peer, comm, stream);
}
EXPORT ncclResult_t ncclRecv(void* recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                             ncclStream_t stream) {
  return spoil(inner<ncclRecv_t>("ncclRecv")(recv, count, type, peer, comm, stream), comm, recv, count, type);
}

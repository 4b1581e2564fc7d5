// A library that does nothing but note the addresses of every all-reduce: "send recv count", a line each, in the file
// that BUSBW_TEST_CALLS names. Tests only; one rank.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "busbw/nccl_abi.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT const char* busbwLibraryName() { return "busbw recording CPU library (tests only)"; }
EXPORT ncclResult_t ncclGetVersion(int* version) { return *version = 22809, ncclSuccess; }
EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  // As NCCL does with the lines of an nccl.conf: what is absent is set in this process.
  if (const char* protocol = std::getenv("BUSBW_TEST_CONF")) setenv("NCCL_PROTO", protocol, 0);
  return std::memset(id, 0, sizeof *id), ncclSuccess;
}
EXPORT ncclResult_t ncclCommInitRank(ncclComm_t* comm, int, ncclUniqueId, int) {
  *comm = static_cast<ncclComm_t>(std::malloc(1));
  return ncclSuccess;
}
EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm) { return std::free(comm), ncclSuccess; }
EXPORT const char* ncclGetErrorString(ncclResult_t) { return "no error"; }
EXPORT ncclResult_t ncclGroupStart() { return ncclSuccess; }
EXPORT ncclResult_t ncclGroupEnd() { return ncclSuccess; }
EXPORT ncclResult_t ncclAllReduce(const void* send, void* recv, size_t count, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                                  ncclStream_t) {
  static std::FILE* file = std::fopen(std::getenv("BUSBW_TEST_CALLS"), "w");
  if (file != nullptr) std::fprintf(file, "%p %p %zu\n", send, recv, count);
  return ncclSuccess;
}

// An NCCL for tests of the recorder, whose calls run on the fake GPU: one nanosecond an element times a thousand. With
// BUSBW_TEST_RCCL it has the names that RCCL adds, and checks what arrives by them. With FAKE_NCCL_COSTS=A,B a call
// takes A ns of a processor, in which it looks at B bytes of its memory, so that the caches hold them.
#include <cstdint>
#include <cstring>
#include <vector>

#include "busbw/nccl_abi.h"
#include "library/tests/record/takes.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

extern "C" [[gnu::weak]] void fakeCudaWork(const void* stream, double ns);

namespace {

struct Rank {
  int rank, ranks;
};
struct Work {
  const void* stream;
  double ns;
};
thread_local int depth = 0;
thread_local std::vector<Work> waiting;

void cost() {
  static const auto all = busbw::record::numbers<2>("FAKE_NCCL_COSTS");
  static std::vector<unsigned char> memory(all[1]);
  for (std::size_t at = 0; at < memory.size(); at += 64) (void)*static_cast<volatile unsigned char*>(&memory[at]);
  busbw::record::take(all[0]);
}

ncclResult_t run(ncclComm_t comm, std::size_t count, ncclStream_t stream) {
  cost();
  if (!comm) return ncclInvalidArgument;
  const Work work{stream, double(count) * 1000};
  if (depth > 0) {
    waiting.push_back(work);
  } else if (fakeCudaWork) {
    fakeCudaWork(work.stream, work.ns);
  }
  return ncclSuccess;
}

}  // namespace

EXPORT ncclResult_t ncclGetVersion(int* version) { return *version = 22809, ncclSuccess; }
EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId* id) { return std::memset(id, 5, sizeof *id), ncclSuccess; }
EXPORT const char* ncclGetErrorString(ncclResult_t) { return "the stand-in's error"; }
EXPORT const char* ncclGetLastError(ncclComm_t) { return ""; }
EXPORT ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId, int rank) {
  *comm = reinterpret_cast<ncclComm_t>(new Rank{rank, ranks});
  return ncclSuccess;
}
EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm) { return delete reinterpret_cast<Rank*>(comm), ncclSuccess; }
EXPORT ncclResult_t ncclCommCount(ncclComm_t comm, int* count) {
  return *count = reinterpret_cast<Rank*>(comm)->ranks, ncclSuccess;
}
EXPORT ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank) {
  return *rank = reinterpret_cast<Rank*>(comm)->rank, ncclSuccess;
}
EXPORT ncclResult_t ncclCommCuDevice(ncclComm_t, int* device) { return *device = 0, ncclSuccess; }
// A communicator of 99 ranks has failed.
EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  return *error = reinterpret_cast<Rank*>(comm)->ranks == 99 ? ncclRemoteError : ncclInProgress, ncclSuccess;
}
EXPORT ncclResult_t ncclGroupStart() { return ++depth, ncclSuccess; }
EXPORT ncclResult_t ncclGroupEnd() {
  if (--depth > 0) return ncclSuccess;
  for (const Work& work : waiting)
    if (fakeCudaWork) fakeCudaWork(work.stream, work.ns);
  waiting.clear();
  return ncclSuccess;
}
EXPORT ncclResult_t ncclAllReduce(const void*, void*, size_t count, ncclDataType_t, ncclRedOp_t, ncclComm_t comm,
                                  ncclStream_t stream) {
  return run(comm, count, stream);
}
EXPORT ncclResult_t ncclSend(const void*, size_t count, ncclDataType_t, int, ncclComm_t comm, ncclStream_t stream) {
  return run(comm, count, stream);
}
EXPORT ncclResult_t ncclRecv(void*, size_t count, ncclDataType_t, int, ncclComm_t comm, ncclStream_t stream) {
  return run(comm, count, stream);
}

namespace {
const void* at(std::uintptr_t number) { return reinterpret_cast<const void*>(number); }
}  // namespace

// What they are given tells whether all of it arrives.
EXPORT ncclResult_t ncclPutSignal(const void* local, size_t count, ncclDataType_t type, int peer, ncclWindow_t window,
                                  size_t offset, int signal, int context, unsigned flags, ncclComm_t comm,
                                  ncclStream_t stream) {
  const bool right = local == at(1) && type == ncclFloat32 && peer == 1 && window == at(4) && offset == 5 &&
                     signal == 6 && context == 7 && flags == 8;
  return right ? run(comm, count, stream) : ncclInvalidArgument;
}
EXPORT ncclResult_t ncclSignal(int peer, int signal, int context, unsigned flags, ncclComm_t comm,
                               ncclStream_t stream) {
  return peer == 1 && signal == 2 && context == 3 && flags == 4 ? run(comm, 0, stream) : ncclInvalidArgument;
}
EXPORT ncclResult_t ncclWaitSignal(int count, void* descriptions, ncclComm_t comm, ncclStream_t stream) {
  return count == 3 && descriptions == at(9) ? run(comm, 0, stream) : ncclInvalidArgument;
}

#ifdef BUSBW_TEST_RCCL

EXPORT ncclResult_t ncclAllReduceWithBias(const void* send, void* recv, size_t count, ncclDataType_t type,
                                          ncclRedOp_t op, ncclComm_t comm, ncclStream_t stream, const void* bias) {
  const bool right =
      send == at(1) && recv == at(2) && count == 100 && type == ncclFloat32 && op == ncclSum && bias == at(8);
  return right ? run(comm, count, stream) : ncclInvalidArgument;
}
EXPORT ncclResult_t ncclAllToAll(const void* send, void* recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                                 ncclStream_t stream) {
  return send == at(1) && recv == at(2) && count == 50 && type == ncclInt8 ? run(comm, count, stream)
                                                                           : ncclInvalidArgument;
}
EXPORT ncclResult_t ncclAllToAllv(const void* send, const size_t* sends, const size_t* send_at, void* recv,
                                  const size_t* recvs, const size_t* recv_at, ncclDataType_t type, ncclComm_t comm,
                                  ncclStream_t stream) {
  const bool right = send == at(1) && sends && send_at == sends && recv == at(4) && recvs == sends &&
                     recv_at == sends && type == ncclFloat64;
  return right ? run(comm, sends[0], stream) : ncclInvalidArgument;
}
EXPORT ncclResult_t mscclLoadAlgo(const char* path, std::uint64_t* handle, int rank) {
  return std::strcmp(path, "algorithm.xml") == 0 && rank == 1 ? (*handle = 9, ncclSuccess) : ncclInvalidArgument;
}
EXPORT ncclResult_t mscclRunAlgo(const void* send, const size_t*, const size_t*, void* recv, const size_t*,
                                 const size_t*, size_t count, ncclDataType_t type, int root, int peer, ncclRedOp_t op,
                                 std::uint64_t handle, ncclComm_t comm, ncclStream_t stream) {
  const bool right = send == at(1) && recv == at(2) && count == 7 && type == ncclFloat16 && root == 1 && peer == 0 &&
                     op == ncclMax && handle == 9;
  return right ? run(comm, count, stream) : ncclInvalidArgument;
}
EXPORT ncclResult_t mscclUnloadAlgo(std::uint64_t handle) { return handle == 9 ? ncclSuccess : ncclInvalidArgument; }
#endif

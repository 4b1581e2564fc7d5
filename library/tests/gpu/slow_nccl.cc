// An NCCL whose non-blocking communicators take their time, as NCCL's do: over our CPU library, which blocks. What it
// has been asked for goes on in a thread of its own, and the communicator is in progress until that is done; a child of
// a communicator has no handle before.
#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "busbw/nccl_abi.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

struct Slow {
  ncclComm_t real = nullptr;
  bool blocking = true;
  std::atomic<ncclResult_t> state{ncclSuccess};
};

Slow* slow(ncclComm_t comm) { return reinterpret_cast<Slow*>(comm); }
ncclComm_t handle(Slow* comm) { return reinterpret_cast<ncclComm_t>(comm); }

template <class Function>
Function* real(const char* name) {
  static void* library = dlopen(BUSBW_TEST_CPU_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<Function*>(dlsym(library, name));
}
#define REAL(name) real<name##_t>(#name)

thread_local int depth = 0;
thread_local std::vector<std::function<ncclResult_t()>> queue;
thread_local std::vector<Slow*> touched;

template <class Work>
ncclResult_t in_background(std::vector<Slow*> comms, Work work) {
  for (Slow* comm : comms) comm->state = ncclInProgress;
  std::thread([comms, work] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const ncclResult_t result = work();
    for (Slow* comm : comms) comm->state = result;
  }).detach();
  return ncclInProgress;
}

ncclResult_t run(const std::vector<std::function<ncclResult_t()>>& calls) {
  REAL(ncclGroupStart)();
  for (const auto& call : calls) call();
  return REAL(ncclGroupEnd)();
}

template <class Call>
ncclResult_t add(ncclComm_t comm, Call call);

}  // namespace

EXPORT ncclResult_t ncclGroupStart() { return ++depth, ncclSuccess; }
EXPORT ncclResult_t ncclGroupEnd() {
  if (depth == 0) return ncclInvalidUsage;
  if (--depth > 0) return ncclSuccess;
  const auto calls = std::exchange(queue, {});
  const auto comms = std::exchange(touched, {});
  bool blocking = true;
  for (const Slow* comm : comms) blocking &= comm->blocking;
  return blocking ? run(calls) : in_background(comms, [calls] { return run(calls); });
}

namespace {

template <class Call>
ncclResult_t add(ncclComm_t comm, Call call) {
  if (!comm || slow(comm)->state == ncclInProgress) return ncclInvalidArgument;
  ncclGroupStart();
  touched.push_back(slow(comm));
  queue.push_back([comm, call] { return call(slow(comm)->real); });
  return ncclGroupEnd();
}

}  // namespace

EXPORT ncclResult_t ncclGetVersion(int* version) { return *version = 23203, ncclSuccess; }
EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId* id) { return REAL(ncclGetUniqueId)(id); }
EXPORT const char* ncclGetErrorString(ncclResult_t code) { return REAL(ncclGetErrorString)(code); }
EXPORT const char* ncclGetLastError(ncclComm_t) { return REAL(ncclGetLastError)(nullptr); }

EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                           ncclConfig_t* config) {
  auto* made = new Slow;
  *comm = handle(made);
  made->blocking = !config || config->blocking != 0;
  const auto make = [=] { return REAL(ncclCommInitRank)(&made->real, ranks, id, rank); };
  return made->blocking ? make() : in_background({made}, make);
}
EXPORT ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return ncclCommInitRankConfig(comm, ranks, id, rank, nullptr);
}
EXPORT ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* result, ncclConfig_t* config) {
  if (slow(comm)->state == ncclInProgress) return ncclInvalidArgument;
  auto* made = new Slow;
  made->blocking = config ? config->blocking != 0 : slow(comm)->blocking;
  const auto make = [=] {
    const ncclResult_t outcome = REAL(ncclCommSplit)(slow(comm)->real, color, key, &made->real, nullptr);
    *result = handle(made);
    return outcome;
  };
  return made->blocking ? make() : in_background({slow(comm)}, make);
}
EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  *error = slow(comm)->state;
  return *error == ncclSuccess ? REAL(ncclCommGetAsyncError)(slow(comm)->real, error) : ncclSuccess;
}
EXPORT ncclResult_t ncclCommCount(ncclComm_t comm, int* count) { return REAL(ncclCommCount)(slow(comm)->real, count); }
EXPORT ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank) {
  return REAL(ncclCommUserRank)(slow(comm)->real, rank);
}
EXPORT ncclResult_t ncclCommCuDevice(ncclComm_t comm, int* device) {
  return REAL(ncclCommCuDevice)(slow(comm)->real, device);
}
EXPORT ncclResult_t ncclCommFinalize(ncclComm_t comm) { return REAL(ncclCommFinalize)(slow(comm)->real); }
EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return slow(comm)->real ? REAL(ncclCommDestroy)(slow(comm)->real) : ncclSuccess;
}
EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return slow(comm)->real ? REAL(ncclCommAbort)(slow(comm)->real) : ncclSuccess;
}
EXPORT ncclResult_t ncclAllGather(const void* send, void* recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                                  ncclStream_t stream) {
  return add(comm, [=](ncclComm_t over) { return REAL(ncclAllGather)(send, recv, count, type, over, stream); });
}
EXPORT ncclResult_t ncclAllReduce(const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                  ncclComm_t comm, ncclStream_t stream) {
  return add(comm, [=](ncclComm_t over) { return REAL(ncclAllReduce)(send, recv, count, type, op, over, stream); });
}
EXPORT ncclResult_t ncclReduce(const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               int root, ncclComm_t comm, ncclStream_t stream) {
  return add(comm, [=](ncclComm_t over) { return REAL(ncclReduce)(send, recv, count, type, op, root, over, stream); });
}

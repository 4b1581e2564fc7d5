// Functions of the NCCL API that came after its collectives: other numbers of ranks, settings of single calls, and what
// only GPUs can do, which is refused with a sentence, as a program that is linked to it could not run else.
#include "library/common/failure.h"
#include "library/common/nccl/functions.h"
#include "library/cpu/checks.h"
#include "library/cpu/making.h"

#define BUSBW_EXPORT extern "C" __attribute__((visibility("default")))

using namespace busbw;       // NOLINT: the exported functions below are C
using namespace busbw::cpu;  // NOLINT

BUSBW_EXPORT ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int ranks, int rank, int ids_count,
                                                   ncclUniqueId* ids, ncclConfig_t* config) {
  return guarded(nullptr, [&] {
    checked_pointer(ids, "unique ids");
    if (ids_count < 1)
      throw Failure(ncclInvalidArgument, text("%d unique ids were given; at least 1 is needed.", ids_count));
    return init_rank(comm, ranks, ids[0], rank, 0, config);
  });
}

BUSBW_EXPORT ncclResult_t ncclCommShrink(ncclComm_t comm, int* excluded, int excluded_count, ncclComm_t* result,
                                         ncclConfig_t* config, int flags) {
  return guarded(comm, [&] {
    return init_shrunk(comm, excluded, excluded_count, result, config, (flags & NCCL_SHRINK_ABORT) != 0);
  });
}

BUSBW_EXPORT ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId* id) {
  return guarded(comm, [&] {
    core_of(checked(comm));
    *checked_pointer(id, "unique id") = UniqueId::make().to_nccl();
    return ncclSuccess;
  });
}

BUSBW_EXPORT ncclResult_t ncclCommGrow(ncclComm_t comm, int ranks, const ncclUniqueId* id, int rank, ncclComm_t* result,
                                       ncclConfig_t* config) {
  return guarded(comm, [&] {
    if (comm) return init_grown(comm, ranks, id, result, config);
    return init_rank(result, ranks, *checked_pointer(id, "unique id"), rank, 0, config);
  });
}

BUSBW_EXPORT ncclResult_t ncclCommRevoke(ncclComm_t handle, int) {
  return guarded(handle, [&] {
    ncclComm& comm = checked(handle);
    core_of(comm);
    comm.revoked.store(true);
    end_calls(comm, "revoked");
    return ncclSuccess;
  });
}

// All of a communicator's memory is shared with ranks that may go on: none is given back.
BUSBW_EXPORT ncclResult_t ncclCommSuspend(ncclComm_t comm, int) {
  return guarded(comm, [&] { return checked(comm), ncclSuccess; });
}

BUSBW_EXPORT ncclResult_t ncclCommResume(ncclComm_t comm, int) {
  return guarded(comm, [&] { return checked(comm), ncclSuccess; });
}

BUSBW_EXPORT ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t window, void** pointer) {
  return guarded(comm, [&] {
    checked(comm);
    *checked_pointer(pointer, "pointer") = window;  // as ncclCommWindowRegister made it
    return ncclSuccess;
  });
}

// How a call shall be done on a GPU: nothing here depends on it.
BUSBW_EXPORT ncclResult_t ncclAllReduceConfig(const void* send, void* recv, size_t count, ncclDataType_t type,
                                              ncclRedOp_t op, ncclComm_t comm, ncclStream_t, const ncclCollConfig_t*) {
  return start(comm, {.kind = CollectiveKind::all_reduce, .type = type, .count = count, .send = send, .recv = recv},
               op);
}

BUSBW_EXPORT ncclResult_t ncclReduceScatterConfig(const void* send, void* recv, size_t count, ncclDataType_t type,
                                                  ncclRedOp_t op, ncclComm_t comm, ncclStream_t,
                                                  const ncclCollConfig_t*) {
  return start(comm, {.kind = CollectiveKind::reduce_scatter, .type = type, .count = count, .send = send, .recv = recv},
               op);
}

BUSBW_EXPORT ncclResult_t ncclReduceConfig(const void* send, void* recv, size_t count, ncclDataType_t type,
                                           ncclRedOp_t op, int root, ncclComm_t comm, ncclStream_t,
                                           const ncclCollConfig_t*) {
  return start(comm,
               {.kind = CollectiveKind::reduce, .type = type, .root = root, .count = count, .send = send, .recv = recv},
               op);
}

BUSBW_EXPORT ncclResult_t ncclAllGatherConfig(const void* send, void* recv, size_t count, ncclDataType_t type,
                                              ncclComm_t comm, ncclStream_t, const ncclCollConfig_t*) {
  return start(comm, {.kind = CollectiveKind::all_gather, .type = type, .count = count, .send = send, .recv = recv});
}

BUSBW_EXPORT ncclResult_t ncclAlltoAllConfig(const void* send, void* recv, size_t count, ncclDataType_t type,
                                             ncclComm_t comm, ncclStream_t, const ncclCollConfig_t*) {
  return start(comm, {.kind = CollectiveKind::all_to_all, .type = type, .count = count, .send = send, .recv = recv});
}

namespace {

ncclResult_t start_rooted(CollectiveKind kind, const void* send, void* recv, size_t count, ncclDataType_t type,
                          int root, ncclComm_t comm) {
  return start(comm, {.kind = kind, .type = type, .root = root, .count = count, .send = send, .recv = recv});
}

}  // namespace

BUSBW_EXPORT ncclResult_t ncclBroadcastConfig(const void* send, void* recv, size_t count, ncclDataType_t type, int root,
                                              ncclComm_t comm, ncclStream_t, const ncclCollConfig_t*) {
  return start_rooted(CollectiveKind::broadcast, send, recv, count, type, root, comm);
}

BUSBW_EXPORT ncclResult_t ncclGatherConfig(const void* send, void* recv, size_t count, ncclDataType_t type, int root,
                                           ncclComm_t comm, ncclStream_t, const ncclCollConfig_t*) {
  return start_rooted(CollectiveKind::gather, send, recv, count, type, root, comm);
}

BUSBW_EXPORT ncclResult_t ncclScatterConfig(const void* send, void* recv, size_t count, ncclDataType_t type, int root,
                                            ncclComm_t comm, ncclStream_t, const ncclCollConfig_t*) {
  return start_rooted(CollectiveKind::scatter, send, recv, count, type, root, comm);
}

#define BUSBW_REFUSED(name)                                                                                        \
  BUSBW_EXPORT ncclResult_t name() {                                                                               \
    return refuse(nullptr, ncclInvalidUsage, #name " needs GPUs: busbw's CPU library works in host memory only."); \
  }

// Their arguments are not looked at. Names that give no result code (ncclTeamWorld and its like) are left out.
BUSBW_REFUSED(ncclPutSignal)
BUSBW_REFUSED(ncclSignal)
BUSBW_REFUSED(ncclWaitSignal)
BUSBW_REFUSED(ncclCommMemStats)
BUSBW_REFUSED(ncclCommQueryProperties)
BUSBW_REFUSED(ncclDevCommCreate)
BUSBW_REFUSED(ncclDevCommDestroy)
BUSBW_REFUSED(ncclGetLsaDevicePointer)
BUSBW_REFUSED(ncclGetLsaMultimemDevicePointer)
BUSBW_REFUSED(ncclGetMultimemDevicePointer)
BUSBW_REFUSED(ncclGetPeerDevicePointer)

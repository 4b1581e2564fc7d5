// The NCCL API: checks arguments, describes each call, and hands it on. No exception leaves this file.
#include <sys/mman.h>

#include <climits>
#include <new>
#include <vector>

#include "busbw/nccl_abi.h"
#include "library/common/failure.h"
#include "library/cpu/checks.h"
#include "library/cpu/group.h"
#include "library/cpu/handle.h"
#include "library/cpu/heap.h"
#include "library/cpu/making.h"

#define BUSBW_EXPORT extern "C" __attribute__((visibility("default")))

namespace busbw::cpu {
namespace {

void close(ncclComm_t comm) {
  comm->magic = 0;
  delete comm;
}

}  // namespace
}  // namespace busbw::cpu

using namespace busbw;       // NOLINT: the exported functions below are C
using namespace busbw::cpu;  // NOLINT

BUSBW_EXPORT const char* busbwLibraryName() { return "busbw CPU library " BUSBW_VERSION; }

BUSBW_EXPORT ncclResult_t ncclGetVersion(int* version) {
  return guarded(nullptr, [&] {
    *checked_pointer(version, "version") = 22809;
    return ncclSuccess;
  });
}

BUSBW_EXPORT const char* ncclGetErrorString(ncclResult_t code) {
  switch (code) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "operation in progress";
    case ncclTimeout:
      return "timeout";
  }
  return "unknown result code";
}

BUSBW_EXPORT const char* ncclGetLastError(ncclComm_t comm) {
  return last_error(comm && comm->magic == ncclComm::live ? comm : nullptr);
}

BUSBW_EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return guarded(nullptr, [&] {
    *checked_pointer(id, "unique id") = UniqueId::make().to_nccl();
    return ncclSuccess;
  });
}

BUSBW_EXPORT ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return guarded(nullptr, [&] { return init_rank(comm, ranks, id, rank, 0, nullptr); });
}

BUSBW_EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                                 ncclConfig_t* config) {
  return guarded(nullptr, [&] { return init_rank(comm, ranks, id, rank, 0, config); });
}

BUSBW_EXPORT ncclResult_t ncclCommInitAll(ncclComm_t* comms, int ranks, const int* devices) {
  if (const ncclResult_t code = guarded(
          nullptr,
          [&] {
            checked_pointer(comms, "communicators");
            if (ranks < 1 || ranks > max_ranks) {
              throw Failure(ncclInvalidArgument,
                            text("Communicators of %d ranks were asked for; 1 to %d are possible.", ranks, max_ranks));
            }
            return ncclSuccess;
          });
      code != ncclSuccess) {
    return code;
  }
  const ncclUniqueId id = UniqueId::make().to_nccl();
  group_start();
  for (int rank = 0; rank < ranks; ++rank) {
    const auto make = [&] { return init_rank(comms + rank, ranks, id, rank, devices ? devices[rank] : rank, nullptr); };
    if (guarded(nullptr, make)) break;
  }
  return group_end();
}

BUSBW_EXPORT ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* result, ncclConfig_t* config) {
  return guarded(comm, [&] { return init_split(comm, color, key, result, config); });
}

BUSBW_EXPORT ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return guarded(comm, [&] { return checked(comm), ncclSuccess; });
}

BUSBW_EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return guarded(comm, [&] { return close(&checked(comm)), ncclSuccess; });
}

BUSBW_EXPORT ncclResult_t ncclCommAbort(ncclComm_t handle) {
  return guarded(handle, [&] {
    ncclComm& comm = checked(handle);
    comm.abort_requested.store(true);
    end_calls(comm, "aborted");
    close(handle);
    return ncclSuccess;
  });
}

BUSBW_EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* error) {
  return guarded(handle, [&] {
    ncclComm& comm = checked(handle);
    // Revoked is what the program wanted it to be.
    const ncclResult_t own = comm.revoked.load() ? ncclSuccess : comm.failed.load();
    const bool asks = own == ncclSuccess && comm.core && !comm.revoked.load();
    *checked_pointer(error, "result") = asks ? comm.core->failure() : own;
    return ncclSuccess;
  });
}

BUSBW_EXPORT ncclResult_t ncclCommCount(ncclComm_t comm, int* count) {
  return guarded(comm, [&] { return *checked_pointer(count, "count") = core_of(checked(comm)).ranks(), ncclSuccess; });
}

BUSBW_EXPORT ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank) {
  return guarded(comm, [&] { return *checked_pointer(rank, "rank") = core_of(checked(comm)).rank(), ncclSuccess; });
}

BUSBW_EXPORT ncclResult_t ncclCommCuDevice(ncclComm_t comm, int* device) {
  return guarded(comm, [&] { return *checked_pointer(device, "device") = checked(comm).device, ncclSuccess; });
}

BUSBW_EXPORT ncclResult_t ncclMemAlloc(void** pointer, size_t size) {
  return guarded(nullptr, [&] {
    *checked_pointer(pointer, "pointer") = heap_allocate(size);
    return ncclSuccess;
  });
}

BUSBW_EXPORT ncclResult_t ncclMemFree(void* pointer) {
  return guarded(nullptr, [&] { return heap_free(pointer), ncclSuccess; });
}

// Registration has nothing to do here: what can be shared is shared by how it was allocated. Handles are tokens.
BUSBW_EXPORT ncclResult_t ncclCommRegister(ncclComm_t comm, void* buffer, size_t, void** handle) {
  return guarded(comm, [&] { return checked(comm), *checked_pointer(handle, "handle") = buffer, ncclSuccess; });
}

BUSBW_EXPORT ncclResult_t ncclCommDeregister(ncclComm_t comm, void*) {
  return guarded(comm, [&] { return checked(comm), ncclSuccess; });
}

BUSBW_EXPORT ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buffer, size_t, ncclWindow_t* window, int) {
  return guarded(comm, [&] {
    checked(comm);
    *checked_pointer(window, "window") = static_cast<ncclWindow_t>(buffer);
    return ncclSuccess;
  });
}

BUSBW_EXPORT ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t) {
  return guarded(comm, [&] { return checked(comm), ncclSuccess; });
}

BUSBW_EXPORT ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                                   ncclScalarResidence_t residence, ncclComm_t comm) {
  return guarded(comm, [&] {
    check_type(type);
    *checked_pointer(op, "operator") = checked(comm).red_ops.create(checked_pointer(scalar, "scalar"), type, residence);
    return ncclSuccess;
  });
}

BUSBW_EXPORT ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  return guarded(comm, [&] { return checked(comm).red_ops.destroy(op), ncclSuccess; });
}

BUSBW_EXPORT ncclResult_t ncclGroupStart() { return group_start(), ncclSuccess; }

BUSBW_EXPORT ncclResult_t ncclGroupEnd() {
  return guarded(nullptr, [] { return group_end(); });
}

// What calls would take is not known here: the caller's estimate stays as it is.
struct ncclSimInfo_t;
BUSBW_EXPORT ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t*) {
  return guarded(nullptr, [] { return group_end(Calling::simulated); });
}

BUSBW_EXPORT ncclResult_t ncclAllReduce(const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                        ncclComm_t comm, ncclStream_t) {
  return start(comm, {.kind = CollectiveKind::all_reduce, .type = type, .count = count, .send = send, .recv = recv},
               op);
}

BUSBW_EXPORT ncclResult_t ncclReduceScatter(const void* send, void* recv, size_t count, ncclDataType_t type,
                                            ncclRedOp_t op, ncclComm_t comm, ncclStream_t) {
  return start(comm, {.kind = CollectiveKind::reduce_scatter, .type = type, .count = count, .send = send, .recv = recv},
               op);
}

BUSBW_EXPORT ncclResult_t ncclReduce(const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                     int root, ncclComm_t comm, ncclStream_t) {
  return start(comm,
               {.kind = CollectiveKind::reduce, .type = type, .root = root, .count = count, .send = send, .recv = recv},
               op);
}

BUSBW_EXPORT ncclResult_t ncclAllGather(const void* send, void* recv, size_t count, ncclDataType_t type,
                                        ncclComm_t comm, ncclStream_t) {
  return start(comm, {.kind = CollectiveKind::all_gather, .type = type, .count = count, .send = send, .recv = recv});
}

BUSBW_EXPORT ncclResult_t ncclBroadcast(const void* send, void* recv, size_t count, ncclDataType_t type, int root,
                                        ncclComm_t comm, ncclStream_t) {
  return start(
      comm,
      {.kind = CollectiveKind::broadcast, .type = type, .root = root, .count = count, .send = send, .recv = recv});
}

BUSBW_EXPORT ncclResult_t ncclBcast(void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                                    ncclStream_t stream) {
  return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

BUSBW_EXPORT ncclResult_t ncclAlltoAll(const void* send, void* recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                                       ncclStream_t) {
  return start(comm, {.kind = CollectiveKind::all_to_all, .type = type, .count = count, .send = send, .recv = recv});
}

BUSBW_EXPORT ncclResult_t ncclGather(const void* send, void* recv, size_t count, ncclDataType_t type, int root,
                                     ncclComm_t comm, ncclStream_t) {
  return start(
      comm, {.kind = CollectiveKind::gather, .type = type, .root = root, .count = count, .send = send, .recv = recv});
}

BUSBW_EXPORT ncclResult_t ncclScatter(const void* send, void* recv, size_t count, ncclDataType_t type, int root,
                                      ncclComm_t comm, ncclStream_t) {
  return start(
      comm, {.kind = CollectiveKind::scatter, .type = type, .root = root, .count = count, .send = send, .recv = recv});
}

BUSBW_EXPORT ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                                   ncclStream_t) {
  return start(comm, Direction::send, send, count, type, peer);
}

BUSBW_EXPORT ncclResult_t ncclRecv(void* recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                                   ncclStream_t) {
  return start(comm, Direction::receive, recv, count, type, peer);
}

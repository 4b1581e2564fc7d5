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

#define BUSBW_EXPORT extern "C" __attribute__((visibility("default")))

namespace busbw::cpu {
namespace {

// Fills `comm` with a new rank; on failure the handle stays, without a core, for ncclCommDestroy.
ncclResult_t join(ncclComm& comm, const UniqueId& id, int ranks, int rank) {
  return guarded(&comm, [&] {
    comm.core = std::make_unique<Communicator>(id, ranks, rank);
    return ncclSuccess;
  });
}

ncclResult_t init_rank(ncclComm_t* result, int ranks, const ncclUniqueId& id, int rank, int device,
                       const ncclConfig_t* config) {
  return guarded(nullptr, [&] {
    checked_pointer(result, "communicator");
    check_config(config);
    if (ranks < 1 || ranks > max_ranks) {
      throw Failure(ncclInvalidArgument,
                    text("A communicator of %d ranks was asked for; 1 to %d are possible.", ranks, max_ranks));
    }
    check_peer("rank", rank, ranks);
    const UniqueId ours = UniqueId::from(id);
    ours.check();
    auto comm = std::make_unique<ncclComm>();
    comm->device = device;
    *result = comm.get();
    return submit_setup([comm = comm.release(), result, ours, ranks, rank] {
      const ncclResult_t code = join(*comm, ours, ranks, rank);
      if (code != ncclSuccess) {
        *result = nullptr;
        delete comm;
      }
      return code;
    });
  });
}

struct SplitWish {
  int color;
  int key;
  UniqueId id;
};

ncclResult_t split(ncclComm& parent, int color, int key, ncclComm_t* result) {
  *result = nullptr;
  std::vector<SplitWish> wishes;
  const ncclResult_t code = run_exclusively(
      parent, [&](Communicator& core) { wishes = core.exchange(SplitWish{color, key, UniqueId::make()}); });
  if (code != ncclSuccess || color == NCCL_SPLIT_NOCOLOR) return code;
  // New ranks go by key, then by rank in the parent; the id is that of the first of them.
  std::vector<int> members;
  for (int rank = 0; rank < int(wishes.size()); ++rank) {
    if (wishes[std::size_t(rank)].color == color) members.push_back(rank);
  }
  std::stable_sort(members.begin(), members.end(),
                   [&](int a, int b) { return wishes[std::size_t(a)].key < wishes[std::size_t(b)].key; });
  const auto me = std::find(members.begin(), members.end(), parent.core->rank());
  auto comm = std::make_unique<ncclComm>();
  comm->device = parent.device;
  const ncclResult_t joined =
      join(*comm, wishes[std::size_t(members.front())].id, int(members.size()), int(me - members.begin()));
  if (joined == ncclSuccess) *result = comm.release();
  return joined;
}

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
  return init_rank(comm, ranks, id, rank, 0, nullptr);
}

BUSBW_EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                                 ncclConfig_t* config) {
  return init_rank(comm, ranks, id, rank, 0, config);
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
    if (init_rank(comms ? comms + rank : nullptr, ranks, id, rank, devices ? devices[rank] : rank, nullptr)) break;
  }
  return group_end();
}

BUSBW_EXPORT ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* result, ncclConfig_t* config) {
  return guarded(comm, [&] {
    core_of(checked(comm));
    checked_pointer(result, "new communicator");
    check_config(config);
    if (color < 0 && color != NCCL_SPLIT_NOCOLOR) {
      throw Failure(ncclInvalidArgument, text("The colour of a split is %d; it must not be negative.", color));
    }
    return submit_setup([=] { return split(*comm, color, key, result); });
  });
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
    if (comm.core) comm.core->abort();
    while (comm.busy.load(std::memory_order_acquire) != 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    close(handle);
    return ncclSuccess;
  });
}

BUSBW_EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* error) {
  return guarded(handle, [&] {
    ncclComm& comm = checked(handle);
    const ncclResult_t own = comm.failed.load();
    *checked_pointer(error, "result") = own != ncclSuccess || !comm.core ? own : comm.core->failure();
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

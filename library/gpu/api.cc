// The functions of the NCCL API that this library looks at. Each hands on to the real NCCL what is not ours. No
// exception leaves this file.
#include <dlfcn.h>

#include <cstdio>
#include <string>

#include "library/common/failure.h"
#include "library/gpu/last_error.h"
#include "library/gpu/real_nccl.h"

#define BUSBW_EXPORT extern "C" __attribute__((visibility("default")))

using namespace busbw;       // NOLINT: the exported functions below are C
using namespace busbw::gpu;  // NOLINT

namespace {

template <class Work>
ncclResult_t guarded(Work work) {
  try {
    return work();
  } catch (const Failure& failure) {
    return remember(failure.code(), failure.what());
  } catch (const std::exception& error) {
    return remember(ncclInternalError, error.what());
  }
}

// A call of the real NCCL, in which a missing function is an error with a sentence.
template <class Function, class... Arguments>
ncclResult_t forward(const char* name, Function* RealNccl::* member, Arguments... arguments) {
  const RealNccl& real = real_nccl();
  if (!(real.*member)) {
    throw Failure(ncclInvalidUsage, text("The NCCL in use (%s, %s) has no %s.", version_text(real.version).c_str(),
                                         real.path.c_str(), name));
  }
  const ncclResult_t result = call_nccl(real.*member, arguments...);
  if (result != ncclSuccess) forget();
  return result;
}

}  // namespace

#define FORWARD(function, member, ...) \
  return guarded([&] { return forward(#function, &RealNccl::member __VA_OPT__(, ) __VA_ARGS__); })

BUSBW_EXPORT const char* busbwLibraryName() {
  // Over our CPU library too, whose name tells the engine that it works in host memory.
  static const std::string name = [] {
    try {
      const RealNccl& real = real_nccl();
      const auto own_name = reinterpret_cast<busbwLibraryName_t*>(dlsym(real.handle, "busbwLibraryName"));
      return "busbw GPU library " BUSBW_VERSION " over " +
             (own_name ? own_name() : "NCCL " + version_text(real.version));
    } catch (const std::exception&) {
      return std::string("busbw GPU library " BUSBW_VERSION " without NCCL");
    }
  }();
  return name.c_str();
}

// Answers without an NCCL too: this is how a program says that there is none.
BUSBW_EXPORT const char* ncclGetErrorString(ncclResult_t code) {
  try {
    return call_nccl(real_nccl().get_error_string, code);
  } catch (const Failure&) {
    return "busbw's GPU library found no NCCL to work with";
  }
}

BUSBW_EXPORT const char* ncclGetLastError(ncclComm_t comm) {
  if (const char* ours = remembered()) return ours;
  try {
    const RealNccl& real = real_nccl();
    return real.get_last_error ? call_nccl(real.get_last_error, comm) : "";
  } catch (const Failure& failure) {
    remember(failure.code(), failure.what());
    return remembered();
  }
}

BUSBW_EXPORT ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  FORWARD(ncclCommInitRank, init_rank, comm, ranks, id, rank);
}

BUSBW_EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                                 ncclConfig_t* config) {
  FORWARD(ncclCommInitRankConfig, init_rank_config, comm, ranks, id, rank, config);
}

BUSBW_EXPORT ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int ranks, int rank, int ids_count,
                                                   ncclUniqueId* ids, ncclConfig_t* config) {
  FORWARD(ncclCommInitRankScalable, init_rank_scalable, comm, ranks, rank, ids_count, ids, config);
}

BUSBW_EXPORT ncclResult_t ncclCommInitAll(ncclComm_t* comms, int count, const int* devices) {
  FORWARD(ncclCommInitAll, init_all, comms, count, devices);
}

BUSBW_EXPORT ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* result, ncclConfig_t* config) {
  FORWARD(ncclCommSplit, split, comm, color, key, result, config);
}

BUSBW_EXPORT ncclResult_t ncclCommShrink(ncclComm_t comm, int* excluded, int excluded_count, ncclComm_t* result,
                                         ncclConfig_t* config, int flags) {
  FORWARD(ncclCommShrink, shrink, comm, excluded, excluded_count, result, config, flags);
}

BUSBW_EXPORT ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags) { FORWARD(ncclCommRevoke, revoke, comm, flags); }
BUSBW_EXPORT ncclResult_t ncclCommFinalize(ncclComm_t comm) { FORWARD(ncclCommFinalize, finalize, comm); }
BUSBW_EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm) { FORWARD(ncclCommDestroy, destroy, comm); }
BUSBW_EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm) { FORWARD(ncclCommAbort, abort, comm); }

BUSBW_EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  FORWARD(ncclCommGetAsyncError, get_async_error, comm, error);
}

BUSBW_EXPORT ncclResult_t ncclGroupStart() { FORWARD(ncclGroupStart, group_start); }
BUSBW_EXPORT ncclResult_t ncclGroupEnd() { FORWARD(ncclGroupEnd, group_end); }

BUSBW_EXPORT ncclResult_t ncclAllReduce(const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                        ncclComm_t comm, ncclStream_t stream) {
  FORWARD(ncclAllReduce, all_reduce, send, recv, count, type, op, comm, stream);
}

BUSBW_EXPORT ncclResult_t ncclAllGather(const void* send, void* recv, size_t count, ncclDataType_t type,
                                        ncclComm_t comm, ncclStream_t stream) {
  FORWARD(ncclAllGather, all_gather, send, recv, count, type, comm, stream);
}

BUSBW_EXPORT ncclResult_t ncclReduceScatter(const void* send, void* recv, size_t count, ncclDataType_t type,
                                            ncclRedOp_t op, ncclComm_t comm, ncclStream_t stream) {
  FORWARD(ncclReduceScatter, reduce_scatter, send, recv, count, type, op, comm, stream);
}

BUSBW_EXPORT ncclResult_t ncclAlltoAll(const void* send, void* recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                                       ncclStream_t stream) {
  FORWARD(ncclAlltoAll, all_to_all, send, recv, count, type, comm, stream);
}

BUSBW_EXPORT ncclResult_t ncclBroadcast(const void* send, void* recv, size_t count, ncclDataType_t type, int root,
                                        ncclComm_t comm, ncclStream_t stream) {
  FORWARD(ncclBroadcast, broadcast, send, recv, count, type, root, comm, stream);
}

BUSBW_EXPORT ncclResult_t ncclBcast(void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                                    ncclStream_t stream) {
  FORWARD(ncclBcast, bcast, buffer, count, type, root, comm, stream);
}

BUSBW_EXPORT ncclResult_t ncclReduce(const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                     int root, ncclComm_t comm, ncclStream_t stream) {
  FORWARD(ncclReduce, reduce, send, recv, count, type, op, root, comm, stream);
}

BUSBW_EXPORT ncclResult_t ncclGather(const void* send, void* recv, size_t count, ncclDataType_t type, int root,
                                     ncclComm_t comm, ncclStream_t stream) {
  FORWARD(ncclGather, gather, send, recv, count, type, root, comm, stream);
}

BUSBW_EXPORT ncclResult_t ncclScatter(const void* send, void* recv, size_t count, ncclDataType_t type, int root,
                                      ncclComm_t comm, ncclStream_t stream) {
  FORWARD(ncclScatter, scatter, send, recv, count, type, root, comm, stream);
}

BUSBW_EXPORT ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                                   ncclStream_t stream) {
  FORWARD(ncclSend, send, send, count, type, peer, comm, stream);
}

BUSBW_EXPORT ncclResult_t ncclRecv(void* recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                                   ncclStream_t stream) {
  FORWARD(ncclRecv, recv, recv, count, type, peer, comm, stream);
}

BUSBW_EXPORT int busbwExplain(ncclComm_t, int, size_t, ncclDataType_t, ncclRedOp_t, char* text, size_t size) {
  if (!text || size == 0) return -1;
  std::snprintf(text, size, "nccl: this build of busbw's GPU library accelerates nothing yet");
  return 0;
}

// The functions of the NCCL API that this library looks at. Each hands on to the real NCCL what is not ours. No
// exception leaves this file.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "library/common/failure.h"
#include "library/gpu/api/group.h"
#include "library/gpu/api/last_error.h"
#include "library/gpu/api/real_nccl.h"
#include "library/gpu/api/registry.h"

#define BUSBW_EXPORT extern "C" __attribute__((visibility("default")))

using namespace busbw;       // NOLINT: the exported functions below are C
using namespace busbw::gpu;  // NOLINT

namespace {

// Turns exceptions into result codes, which the group around the call reports too.
template <class Work>
ncclResult_t guarded(Work work) {
  try {
    return work();
  } catch (const Failure& failure) {
    Group::of_this_thread().note_failure(failure.code());
    return remember(failure.code(), failure.what());
  } catch (const std::exception& error) {
    Group::of_this_thread().note_failure(ncclInternalError);
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
  if (result != ncclSuccess && result != ncclInProgress) {
    forget();
    Group::of_this_thread().note_failure(result);
  }
  return result;
}

bool inside_nccl() { return calls_inside_nccl > 0; }

// What we know of a communicator; throws a Failure if it is poisoned.
std::shared_ptr<Entry> usable(ncclComm_t comm) {
  if (inside_nccl()) return nullptr;
  std::shared_ptr<Entry> entry = registry().find(comm);
  if (entry && entry->state()) entry->state()->check();
  return entry;
}

// A call that goes to NCCL, in its place among those of ours on the same communicator.
template <class Real>
ncclResult_t in_order(const std::shared_ptr<Communicator>& ours, DeviceStream stream, Real real) {
  if (!ours) return real();
  Group& group = Group::of_this_thread();
  if (group.open()) {
    const ncclResult_t result = real();
    group.note_nccl(ours, stream);
    return result;
  }
  const std::uint64_t capture = ours->before(stream);
  const ncclResult_t result = real();
  if (result == ncclSuccess) ours->after(stream, capture);
  return result;
}

template <class Real>
ncclResult_t by_nccl(ncclComm_t comm, ncclStream_t stream, Real real) {
  const std::shared_ptr<Entry> entry = usable(comm);
  return in_order(entry ? entry->ours : nullptr, stream, real);
}

template <class Real>
ncclResult_t collective(ncclComm_t comm, const Call& call, Real real) {
  const std::shared_ptr<Entry> entry = usable(comm);
  if (!entry || !entry->ours) return real();
  const Choice choice = entry->ours->decide(call);
  if (!choice.accelerated) return in_order(entry->ours, call.stream, real);
  Group& group = Group::of_this_thread();
  if (group.open()) {
    group.defer(entry->ours, call, choice);
  } else {
    entry->ours->launch(call, choice);
  }
  return ncclSuccess;
}

// Whether a new communicator blocks, as NCCL decides it.
bool blocks(const ncclConfig_t* config, bool otherwise) {
  if (const char* forced = std::getenv("NCCL_COMM_BLOCKING"); forced && *forced)
    return std::strtol(forced, nullptr, 0) != 0;
  if (!config || config->blocking == NCCL_CONFIG_UNDEF_INT) return otherwise;
  return config->blocking != 0;
}

// `make` asks the real NCCL for communicators.
template <class Make>
ncclResult_t make_communicators(const ncclComm_t* comms, int count, bool blocking, Make make) {
  const ncclResult_t result = make();
  if (result == ncclSuccess && !inside_nccl()) note_new_communicators(comms, count, blocking);
  return result;
}

// The parent's ways, for communicators that are made from it.
bool blocks_like(ncclComm_t parent, const ncclConfig_t* config) {
  const std::shared_ptr<Entry> entry = registry().find(parent);
  return blocks(config, !entry || entry->blocking);
}

enum class End { orderly, abort };

// A peer may be dead: NCCL's own end of such a communicator is an abort, as it would wait for that peer otherwise. An
// abort stays one in any case: it is called while other threads are inside a call that only an abort brings back.
ncclResult_t destroy(ncclComm_t comm, End how) {
  const std::shared_ptr<Entry> entry = inside_nccl() ? nullptr : registry().take(comm);
  const bool poisoned = entry && entry->state() && entry->state()->code() != ncclSuccess;
  if (entry && entry->ours) {
    entry->ours->drain();
    entry->ours.reset();
  }
  if ((poisoned || how == End::abort) && real_nccl().abort) return forward("ncclCommAbort", &RealNccl::abort, comm);
  return forward("ncclCommDestroy", &RealNccl::destroy, comm);
}

// Ends what runs on a communicator. Only an abort concerns the other ranks: they revoke and shrink it themselves.
void stop(ncclComm_t comm, ncclResult_t code, const char* how) {
  const std::shared_ptr<Entry> entry = inside_nccl() ? nullptr : registry().find(comm);
  if (!entry || !entry->ours) return;
  const std::string sentence = text("This communicator was stopped here (%s).", how);
  if (code == ncclRemoteError) entry->ours->abort(sentence);
  entry->ours->health().poison(code, sentence);
}

}  // namespace

#define REAL(function, member, ...) [&] { return forward(#function, &RealNccl::member __VA_OPT__(, ) __VA_ARGS__); }

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
  } catch (const std::exception&) {
    return "busbw's GPU library found no NCCL to work with";
  }
}

BUSBW_EXPORT const char* ncclGetLastError(ncclComm_t comm) {
  try {
    if (const std::shared_ptr<Entry> entry = comm ? registry().find(comm) : nullptr; entry && entry->state()) {
      if (const ncclResult_t code = entry->state()->code(); code != ncclSuccess)
        remember(code, entry->state()->sentence());
    }
    if (const char* ours = remembered()) return ours;
    const RealNccl& real = real_nccl();
    return real.get_last_error ? call_nccl(real.get_last_error, comm) : "";
  } catch (const Failure& failure) {
    remember(failure.code(), failure.what());
    return remembered();
  }
}

BUSBW_EXPORT ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return guarded([&] {
    return make_communicators(comm, 1, blocks(nullptr, true), REAL(ncclCommInitRank, init_rank, comm, ranks, id, rank));
  });
}

BUSBW_EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                                 ncclConfig_t* config) {
  return guarded([&] {
    return make_communicators(comm, 1, blocks(config, true),
                              REAL(ncclCommInitRankConfig, init_rank_config, comm, ranks, id, rank, config));
  });
}

BUSBW_EXPORT ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int ranks, int rank, int ids_count,
                                                   ncclUniqueId* ids, ncclConfig_t* config) {
  return guarded([&] {
    return make_communicators(
        comm, 1, blocks(config, true),
        REAL(ncclCommInitRankScalable, init_rank_scalable, comm, ranks, rank, ids_count, ids, config));
  });
}

BUSBW_EXPORT ncclResult_t ncclCommInitAll(ncclComm_t* comms, int count, const int* list) {
  return guarded([&] {
    return make_communicators(comms, count, blocks(nullptr, true), REAL(ncclCommInitAll, init_all, comms, count, list));
  });
}

BUSBW_EXPORT ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* result, ncclConfig_t* config) {
  return guarded([&] {
    const std::shared_ptr<Entry> entry = inside_nccl() ? nullptr : registry().find(comm);
    // A communicator that was only revoked can still be split.
    if (entry && entry->state() && entry->state()->code() == ncclRemoteError) entry->state()->check();
    return make_communicators(result, 1, blocks_like(comm, config),
                              REAL(ncclCommSplit, split, comm, color, key, result, config));
  });
}

BUSBW_EXPORT ncclResult_t ncclCommShrink(ncclComm_t comm, int* excluded, int excluded_count, ncclComm_t* result,
                                         ncclConfig_t* config, int flags) {
  return guarded([&] {
    // This is how a program goes on without lost ranks, so the parent may be in any state.
    if (flags & NCCL_SHRINK_ABORT) stop(comm, ncclInvalidUsage, "ncclCommShrink");
    return make_communicators(result, 1, blocks_like(comm, config),
                              REAL(ncclCommShrink, shrink, comm, excluded, excluded_count, result, config, flags));
  });
}

BUSBW_EXPORT ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags) {
  return guarded([&] {
    stop(comm, ncclInvalidUsage, "ncclCommRevoke");
    return REAL(ncclCommRevoke, revoke, comm, flags)();
  });
}

BUSBW_EXPORT ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return guarded([&] {
    if (const std::shared_ptr<Entry> entry = usable(comm); entry && entry->ours) entry->ours->drain();
    return REAL(ncclCommFinalize, finalize, comm)();
  });
}

BUSBW_EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return guarded([&] { return destroy(comm, End::orderly); });
}

BUSBW_EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return guarded([&] {
    stop(comm, ncclRemoteError, "ncclCommAbort");
    return destroy(comm, End::abort);
  });
}

BUSBW_EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  return guarded([&] {
    const ncclResult_t result = REAL(ncclCommGetAsyncError, get_async_error, comm, error)();
    if (result != ncclSuccess || *error != ncclSuccess || inside_nccl()) return result;
    const std::shared_ptr<Entry> entry = registry().find(comm);
    if (entry && entry->state() && entry->state()->code() != ncclSuccess) {
      *error = remember(entry->state()->code(), entry->state()->sentence());
    }
    return result;
  });
}

// A rank's window is known to its peers when they have all registered theirs. Of others than symmetric ones nobody has
// promised that all ranks use them alike.
BUSBW_EXPORT ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buffer, size_t size, ncclWindow_t* window,
                                                 int flags) {
  return guarded([&] {
    const std::shared_ptr<Entry> entry = usable(comm);
    const ncclResult_t result = REAL(ncclCommWindowRegister, window_register, comm, buffer, size, window, flags)();
    if (result == ncclSuccess && entry && entry->ours && (flags & NCCL_WIN_COLL_SYMMETRIC) != 0) {
      Group::of_this_thread().note_window({comm, entry->ours, buffer, size, window});
    }
    return result;
  });
}

BUSBW_EXPORT ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  return guarded([&] {
    const std::shared_ptr<Entry> entry = inside_nccl() ? nullptr : registry().find(comm);
    if (entry && entry->ours) entry->ours->remove_window(window);
    return REAL(ncclCommWindowDeregister, window_deregister, comm, window)();
  });
}

BUSBW_EXPORT ncclResult_t ncclGroupStart() {
  return guarded([] { return inside_nccl() ? call_nccl(real_nccl().group_start) : Group::of_this_thread().start(); });
}

BUSBW_EXPORT ncclResult_t ncclGroupEnd() {
  return guarded([] { return inside_nccl() ? call_nccl(real_nccl().group_end) : Group::of_this_thread().end(); });
}

BUSBW_EXPORT ncclResult_t ncclAllReduce(const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                        ncclComm_t comm, ncclStream_t stream) {
  return guarded([&] {
    const Call call{Collective::all_reduce, type, op, count, 0, send, recv, stream};
    return collective(comm, call, REAL(ncclAllReduce, all_reduce, send, recv, count, type, op, comm, stream));
  });
}

BUSBW_EXPORT ncclResult_t ncclAllGather(const void* send, void* recv, size_t count, ncclDataType_t type,
                                        ncclComm_t comm, ncclStream_t stream) {
  return guarded([&] {
    const Call call{Collective::all_gather, type, ncclSum, count, 0, send, recv, stream};
    return collective(comm, call, REAL(ncclAllGather, all_gather, send, recv, count, type, comm, stream));
  });
}

BUSBW_EXPORT ncclResult_t ncclReduceScatter(const void* send, void* recv, size_t count, ncclDataType_t type,
                                            ncclRedOp_t op, ncclComm_t comm, ncclStream_t stream) {
  return guarded([&] {
    const Call call{Collective::reduce_scatter, type, op, count, 0, send, recv, stream};
    return collective(comm, call, REAL(ncclReduceScatter, reduce_scatter, send, recv, count, type, op, comm, stream));
  });
}

BUSBW_EXPORT ncclResult_t ncclAlltoAll(const void* send, void* recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                                       ncclStream_t stream) {
  return guarded([&] {
    const Call call{Collective::all_to_all, type, ncclSum, count, 0, send, recv, stream};
    return collective(comm, call, REAL(ncclAlltoAll, all_to_all, send, recv, count, type, comm, stream));
  });
}

BUSBW_EXPORT ncclResult_t ncclBroadcast(const void* send, void* recv, size_t count, ncclDataType_t type, int root,
                                        ncclComm_t comm, ncclStream_t stream) {
  return guarded([&] {
    const Call call{Collective::broadcast, type, ncclSum, count, root, send, recv, stream};
    return collective(comm, call, REAL(ncclBroadcast, broadcast, send, recv, count, type, root, comm, stream));
  });
}

BUSBW_EXPORT ncclResult_t ncclBcast(void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                                    ncclStream_t stream) {
  return guarded([&] {
    const Call call{Collective::broadcast, type, ncclSum, count, root, buffer, buffer, stream};
    return collective(comm, call, REAL(ncclBcast, bcast, buffer, count, type, root, comm, stream));
  });
}

BUSBW_EXPORT ncclResult_t ncclReduce(const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                     int root, ncclComm_t comm, ncclStream_t stream) {
  return guarded(
      [&] { return by_nccl(comm, stream, REAL(ncclReduce, reduce, send, recv, count, type, op, root, comm, stream)); });
}

BUSBW_EXPORT ncclResult_t ncclGather(const void* send, void* recv, size_t count, ncclDataType_t type, int root,
                                     ncclComm_t comm, ncclStream_t stream) {
  return guarded(
      [&] { return by_nccl(comm, stream, REAL(ncclGather, gather, send, recv, count, type, root, comm, stream)); });
}

BUSBW_EXPORT ncclResult_t ncclScatter(const void* send, void* recv, size_t count, ncclDataType_t type, int root,
                                      ncclComm_t comm, ncclStream_t stream) {
  return guarded(
      [&] { return by_nccl(comm, stream, REAL(ncclScatter, scatter, send, recv, count, type, root, comm, stream)); });
}

BUSBW_EXPORT ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                                   ncclStream_t stream) {
  return guarded([&] { return by_nccl(comm, stream, REAL(ncclSend, send, send, count, type, peer, comm, stream)); });
}

BUSBW_EXPORT ncclResult_t ncclRecv(void* recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                                   ncclStream_t stream) {
  return guarded([&] { return by_nccl(comm, stream, REAL(ncclRecv, recv, recv, count, type, peer, comm, stream)); });
}

BUSBW_EXPORT int busbwExplainCall(ncclComm_t comm, int collective, const void* send, const void* recv, size_t count,
                                  ncclDataType_t type, ncclRedOp_t op, char* text, size_t size) {
  if (!text || size == 0 || collective < 0 || collective >= collective_count) return -1;
  try {
    const std::shared_ptr<Entry> entry = registry().find(comm);
    std::string answer = "nccl: this communicator was not made through busbw's GPU library";
    if (entry && !entry->ours) answer = "nccl: " + entry->reason;
    if (entry && entry->ours) {
      answer = describe(entry->ours->decide({.collective = Collective(collective),
                                             .type = type,
                                             .op = op,
                                             .count = count,
                                             .send = send,
                                             .recv = const_cast<void*>(recv)}));
    }
    std::snprintf(text, size, "%s", answer.c_str());
    return 0;
  } catch (const std::exception&) {
    return -1;
  }
}

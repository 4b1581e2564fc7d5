// An NCCL whose non-blocking communicators take their time, as NCCL's do: over our CPU library, which blocks. What it
// has been asked for goes on in a thread of its own, and the communicator is in progress until that is done; a child of
// a communicator has no handle before.
#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <set>
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
  // Work of threads that has yet to end, and that none of it shall begin any more.
  std::atomic<int> pending{0};
  std::atomic<bool> ended{false};
};

Slow* slow(ncclComm_t comm) { return reinterpret_cast<Slow*>(comm); }
ncclComm_t handle(Slow* comm) { return reinterpret_cast<ncclComm_t>(comm); }

// Those that there are: NCCL's memory of others is gone, and a question about one reads what is another's by now.
std::mutex living_guard;
std::set<const Slow*>& living() {
  static auto* const all = new std::set<const Slow*>;
  return *all;
}
Slow* make() {
  const std::lock_guard lock(living_guard);
  auto* const made = new Slow;
  living().insert(made);
  return made;
}
void unmake(Slow* comm) {
  const std::lock_guard lock(living_guard);
  living().erase(comm);
  delete comm;
}

template <class Function>
Function* real(const char* name) {
  static void* library = dlopen(BUSBW_TEST_CPU_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<Function*>(dlsym(library, name));
}
#define REAL(name) real<name##_t>(#name)

// The group of one thread. Not thread_local: the thread sanitizer takes the end of such an object in a library that was
// opened by dlopen for a race with the loader, which frees its memory.
struct Group {
  int depth = 0;
  std::vector<std::function<ncclResult_t()>> queue;
  std::vector<Slow*> touched;
};
std::mutex guard;
std::map<std::thread::id, Group>& groups() {
  static std::map<std::thread::id, Group> all;
  return all;
}
Group& group() {
  const std::lock_guard lock(guard);
  return groups()[std::this_thread::get_id()];
}
// The identity of a thread that has ended comes again: the next one must not find the group of the last, nor write
// where that one wrote without a lock between them.
Group take_group() {
  const std::lock_guard lock(guard);
  return std::move(groups().extract(std::this_thread::get_id()).mapped());
}

// How long NCCL takes for everything.
std::chrono::milliseconds pace() {
  const char* setting = std::getenv("BUSBW_TEST_SLOW_NCCL_MILLISECONDS");
  return std::chrono::milliseconds(setting ? std::atoi(setting) : 20);
}

template <class Work>
ncclResult_t in_background(std::vector<Slow*> comms, Work work) {
  for (Slow* comm : comms) ++comm->pending, comm->state = ncclInProgress;
  std::thread([comms, work, pace = pace()] {
    std::this_thread::sleep_for(pace);
    bool ended = false;
    for (const Slow* comm : comms) ended |= comm->ended;
    const ncclResult_t result = ended ? ncclInternalError : work();
    for (Slow* comm : comms) comm->state = result, --comm->pending;
  }).detach();
  return ncclInProgress;
}

void wait_for_pending(const Slow& comm, std::chrono::milliseconds most) {
  const auto end = std::chrono::steady_clock::now() + most;
  while (comm.pending > 0 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

ncclResult_t run(const std::vector<std::function<ncclResult_t()>>& calls) {
  REAL(ncclGroupStart)();
  for (const auto& call : calls) call();
  return REAL(ncclGroupEnd)();
}

template <class Call>
ncclResult_t add(ncclComm_t comm, Call call);

}  // namespace

EXPORT ncclResult_t ncclGroupStart() { return ++group().depth, ncclSuccess; }
EXPORT ncclResult_t ncclGroupEnd() {
  if (group().depth == 0) return take_group(), ncclInvalidUsage;
  if (--group().depth > 0) return ncclSuccess;
  const Group mine = take_group();
  const auto& calls = mine.queue;
  const auto& comms = mine.touched;
  bool blocking = true;
  for (const Slow* comm : comms) blocking &= comm->blocking;
  return blocking ? run(calls) : in_background(comms, [calls] { return run(calls); });
}

namespace {

template <class Call>
ncclResult_t add(ncclComm_t comm, Call call) {
  if (!comm || slow(comm)->state == ncclInProgress) return ncclInvalidArgument;
  ncclGroupStart();
  group().touched.push_back(slow(comm));
  group().queue.push_back([comm, call] { return call(slow(comm)->real); });
  return ncclGroupEnd();
}

}  // namespace

EXPORT ncclResult_t ncclGetVersion(int* version) { return *version = 23203, ncclSuccess; }
EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId* id) { return REAL(ncclGetUniqueId)(id); }
EXPORT const char* ncclGetErrorString(ncclResult_t code) { return REAL(ncclGetErrorString)(code); }
EXPORT const char* ncclGetLastError(ncclComm_t) { return REAL(ncclGetLastError)(nullptr); }

EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                           ncclConfig_t* config) {
  auto* made = make();
  *comm = handle(made);
  made->blocking = !config || config->blocking != 0;
  const auto begin = [=] { return REAL(ncclCommInitRank)(&made->real, ranks, id, rank); };
  return made->blocking ? begin() : in_background({made}, begin);
}
EXPORT ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return ncclCommInitRankConfig(comm, ranks, id, rank, nullptr);
}
EXPORT ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* result, ncclConfig_t* config) {
  if (slow(comm)->state == ncclInProgress) return ncclInvalidArgument;
  auto* made = make();
  made->blocking = config ? config->blocking != 0 : slow(comm)->blocking;
  const auto begin = [=] {
    const ncclResult_t outcome = REAL(ncclCommSplit)(slow(comm)->real, color, key, &made->real, nullptr);
    *result = handle(made);
    return outcome;
  };
  return made->blocking ? begin() : in_background({slow(comm)}, begin);
}
EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  {
    const std::lock_guard lock(living_guard);
    if (!living().contains(slow(comm))) {
      std::fprintf(stderr, "asked about a communicator that is gone\n");
      std::abort();
    }
  }
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
  wait_for_pending(*slow(comm), std::chrono::seconds(60));
  const ncclResult_t result = slow(comm)->real ? REAL(ncclCommDestroy)(slow(comm)->real) : ncclSuccess;
  unmake(slow(comm));
  return result;
}
EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm) {
  slow(comm)->ended = true;
  // What is still on its way by then waits for peers inside a real call, which only the real abort brings back.
  wait_for_pending(*slow(comm), std::chrono::milliseconds(50));
  const ncclResult_t result = slow(comm)->real ? REAL(ncclCommAbort)(slow(comm)->real) : ncclSuccess;
  wait_for_pending(*slow(comm), std::chrono::seconds(60));
  unmake(slow(comm));
  return result;
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

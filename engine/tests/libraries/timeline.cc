// Notes when each all-reduce began and ended, and when its end was asked for, in any program that uses NCCL. Bench and
// tests, by LD_PRELOAD.
//
// Both nccl-tests, which is linked with NCCL, and busbw, which opens it, call ncclAllReduce for each operation and
// ncclCommGetAsyncError for each poll that finds it running. When communicators are destroyed, the file of
// BUSBW_TIMELINE gets a line for each: process, thread (in the order of their first call), c or p, count, begin, end in
// ns.
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "busbw/nccl_abi.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

struct Event {
  char kind;
  std::size_t count;
  long long begin;
  long long end;
};
// Polls of long operations are many.
constexpr std::size_t most_events = 1 << 20;
using Log = std::vector<Event>;

std::mutex lock;
std::vector<std::unique_ptr<Log>> logs;
bool written = false;

Log& log_of_this_thread() {
  thread_local Log* const mine = [] {
    const std::lock_guard guard(lock);
    logs.push_back(std::make_unique<Log>());
    logs.back()->reserve(1 << 16);
    return logs.back().get();
  }();
  return *mine;
}

long long now() { return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1); }

void note(char kind, std::size_t count, long long begin) {
  const long long end = now();
  Log& log = log_of_this_thread();
  if (log.size() < most_events) log.push_back({kind, count, begin, end});
}

void write_once() {
  const std::lock_guard guard(lock);
  const char* path = std::getenv("BUSBW_TIMELINE");
  if (written || path == nullptr) return;
  written = true;
  std::FILE* file = std::fopen(path, "a");
  if (file == nullptr) return;
  std::vector<char> all(std::size_t{64} << 20);
  std::setvbuf(file, all.data(), _IOFBF, all.size());  // processes append in one piece
  for (std::size_t thread = 0; thread < logs.size(); ++thread)
    for (const Event& e : *logs[thread])
      std::fprintf(file, "%ld %zu %c %zu %lld %lld\n", static_cast<long>(getpid()), thread, e.kind, e.count, e.begin,
                   e.end);
  std::fclose(file);
}

using FindSymbol = void* (*)(void*, const char*);
FindSymbol system_dlsym() {
  static const auto found = [] {
    void* symbol = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    if (symbol == nullptr) symbol = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    if (symbol == nullptr) symbol = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.17");
    return reinterpret_cast<FindSymbol>(symbol);
  }();
  return found;
}

// NCCL's own functions: those that busbw found in the library that it opened, else those linked.
template <typename Function>
struct Real {
  const char* name;
  Function* found = nullptr;
  Function* get() {
    if (found == nullptr) found = reinterpret_cast<Function*>(system_dlsym()(RTLD_NEXT, name));
    return found;
  }
};
Real<ncclAllReduce_t> all_reduce{"ncclAllReduce"};
Real<ncclCommGetAsyncError_t> get_async_error{"ncclCommGetAsyncError"};
Real<ncclCommDestroy_t> destroy{"ncclCommDestroy"};

}  // namespace

EXPORT ncclResult_t ncclAllReduce(const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                  ncclComm_t comm, ncclStream_t stream) {
  const long long begin = now();
  const ncclResult_t result = all_reduce.get()(send, recv, count, type, op, comm, stream);
  note('c', count, begin);
  return result;
}

EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  const long long begin = now();
  const ncclResult_t result = get_async_error.get()(comm, error);
  note('p', 0, begin);
  return result;
}

EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  write_once();
  return destroy.get()(comm);
}

EXPORT void* dlsym(void* handle, const char* name) {
  void* const symbol = system_dlsym()(handle, name);
  if (symbol == nullptr || handle == RTLD_NEXT || handle == RTLD_DEFAULT) return symbol;
  const auto instead = [&](auto& real, auto* ours) -> void* {
    real.found = reinterpret_cast<decltype(real.found)>(symbol);
    return reinterpret_cast<void*>(ours);
  };
  if (std::strcmp(name, "ncclAllReduce") == 0) return instead(all_reduce, ncclAllReduce);
  if (std::strcmp(name, "ncclCommGetAsyncError") == 0) return instead(get_async_error, ncclCommGetAsyncError);
  if (std::strcmp(name, "ncclCommDestroy") == 0) return instead(destroy, ncclCommDestroy);
  return symbol;
}

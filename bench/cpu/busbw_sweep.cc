// ncclAllReduce of busbw's CPU library over all sizes, with the loop of sweep.h: two processes or two threads.
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "library/tests/cpu/api.h"
#include "sweep.h"

namespace {

constexpr int ranks = 2;

struct Options {
  bool threads = false;
  bool plain_memory = false;
  bool in_place = false;
  std::size_t min_bytes = 8;
  std::size_t max_bytes = 256u << 20;
};

void check(ncclResult_t code) {
  if (code == ncclSuccess) return;
  std::fprintf(stderr, "busbw_sweep: %s: %s\n", ncclGetErrorString(code), ncclGetLastError(nullptr));
  std::_Exit(1);
}

void* allocate(const Options& options) {
  void* pointer = nullptr;
  if (options.plain_memory) {
    pointer = std::aligned_alloc(4096, options.max_bytes);
  } else {
    check(ncclMemAlloc(&pointer, options.max_bytes));
  }
  std::memset(pointer, 0, options.max_bytes);
  return pointer;
}

// One core per rank, as `mpirun --bind-to core` does.
void bind_to_core(int core) {
  cpu_set_t all, one;
  sched_getaffinity(0, sizeof all, &all);
  CPU_ZERO(&one);
  for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &all) && seen++ == core) CPU_SET(cpu, &one);
  }
  if (CPU_COUNT(&one) == 1) sched_setaffinity(0, sizeof one, &one);
}

void run_rank(const Options& options, const ncclUniqueId& id, int rank) {
  bind_to_core(rank);
  ncclComm_t comm;
  check(ncclCommInitRank(&comm, ranks, id, rank));
  auto* send = static_cast<char*>(allocate(options));
  auto* recv = options.in_place ? send : static_cast<char*>(allocate(options));
  const sweep_backend backend{
      .barrier =
          [](void* context) {
            float one = 1;
            check(ncclAllReduce(&one, &one, 1, ncclFloat32, ncclSum, static_cast<ncclComm_t>(context), nullptr));
          },
      .all_reduce =
          [](void* context, const void* from, void* to, std::size_t floats) {
            check(ncclAllReduce(from, to, floats, ncclFloat32, ncclSum, static_cast<ncclComm_t>(context), nullptr));
          },
      .mean =
          [](void* context, double value) {
            check(ncclAllReduce(&value, &value, 1, ncclFloat64, ncclAvg, static_cast<ncclComm_t>(context), nullptr));
            return value;
          },
      .context = comm,
      .rank = rank};
  sweep(&backend, send, recv, options.min_bytes, options.max_bytes);
  check(ncclCommDestroy(comm));
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  int numbers = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--threads") {
      options.threads = true;
    } else if (argument == "--plain-memory") {
      options.plain_memory = true;
    } else if (argument == "--in-place") {
      options.in_place = true;
    } else {
      (numbers++ == 0 ? options.min_bytes : options.max_bytes) = std::strtoull(argv[i], nullptr, 10);
    }
  }
  ncclUniqueId id;
  check(ncclGetUniqueId(&id));
  if (options.threads) {
    std::thread second([&] { run_rank(options, id, 1); });
    run_rank(options, id, 0);
    second.join();
    return 0;
  }
  const pid_t child = fork();
  if (child == 0) {
    run_rank(options, id, 1);
    std::_Exit(0);
  }
  run_rank(options, id, 0);
  int status = 0;
  waitpid(child, &status, 0);
  return status == 0 ? 0 : 1;
}

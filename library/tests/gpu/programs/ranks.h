// Runs cases by ranks that are threads of one process or processes, each with a GPU of its own or all on one GPU. Ends
// what hangs.
#pragma once

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "library/tests/gpu/programs/cuda.h"

namespace programs {

constexpr int most_ranks = 8;
constexpr int most_cases = 256;

enum : int { not_run = 0, passed, failed, skipped };

// Between the processes of one job and the one that watches them.
struct Shared {
  std::atomic<int> arrived, generation;
  std::atomic<int> broken;  // a rank has failed: nobody waits for it any more
  std::atomic<int> current;
  bool one_gpu;           // for all ranks
  std::atomic<int> left;  // ranks that have ended early, as their case wants it
  ncclUniqueId id;
  std::atomic<int> result[most_cases];
  char message[512];
};

struct Skip : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// So many elements that a case's calls take all of the library's paths: 1 KiB, 256 KiB, 4 MiB, 32 MiB of floats.
constexpr std::size_t sizes[] = {256, 65536, 1 << 20, 8 << 20};
constexpr std::size_t most_elements = 8 << 20;

// One rank: its GPU, what it has to clean up, and the communicator that cases share.
class Rank {
 public:
  const Cuda& cuda;
  const Nccl& nccl;
  int rank;
  int ranks;
  int patience;  // seconds
  Shared& shared;
  bool own_process;

  Rank(const Cuda& driver, const Nccl& library, Shared& with_all, int number, int count, int seconds,
       bool alone = false)
      : cuda(driver),
        nccl(library),
        rank(number),
        ranks(count),
        patience(seconds),
        shared(with_all),
        own_process(alone) {
    use();
    // Keeps its stream busy for so many nanoseconds.
    constexpr const char* spin =
        ".version 6.3\n.target sm_70\n.address_size 64\n"
        ".visible .entry spin(.param .u64 ns) {\n.reg .u64 %a, %b, %c;\n.reg .pred %p;\n"
        "ld.param.u64 %a, [ns];\nmov.u64 %b, %globaltimer;\n"
        "again:\nmov.u64 %c, %globaltimer;\nsub.u64 %c, %c, %b;\nsetp.lt.u64 %p, %c, %a;\n@%p bra again;\nret;\n}\n";
    Module module = nullptr;
    cuda.check(cuda.module_load(&module, spin), "cuModuleLoadData");
    cuda.check(cuda.module_function(&spin_, module, "spin"), "cuModuleGetFunction");
  }

  // This thread works on the rank's GPU.
  void use() {
    int device = 0;
    cuda.check(cuda.device_get(&device, shared.one_gpu ? 0 : rank), "cuDeviceGet");
    if (!context_) cuda.check(cuda.context_retain(&context_, device), "cuDevicePrimaryCtxRetain");
    cuda.check(cuda.context_set(context_), "cuCtxSetCurrent");
  }

  void barrier() {
    const int generation = shared.generation.load();
    if (shared.arrived.fetch_add(1) == ranks - shared.left - 1) {
      shared.arrived = 0;
      ++shared.generation;
      return;
    }
    while (shared.generation.load() == generation) {
      if (shared.broken) throw std::runtime_error("another rank has failed");
      ::sched_yield();
    }
  }

  ncclComm_t new_comm() {
    if (rank == 0) nccl.check(nccl.get_unique_id(&shared.id), "ncclGetUniqueId");
    barrier();
    const ncclUniqueId id = shared.id;
    barrier();
    ncclComm_t comm = nullptr;
    nccl.check(nccl.init_rank(&comm, ranks, id, rank), "ncclCommInitRank");
    return comm;
  }
  // A communicator that is made once.
  ncclComm_t comm() {
    if (!comm_) comm_ = new_comm();
    return comm_;
  }

  Stream stream(bool blocking = false) {
    Stream made = nullptr;
    cuda.check(cuda.stream_create(&made, blocking ? 0 : 1), "cuStreamCreate");
    return made;
  }
  // Of most_elements; the next case has it again.
  Address buffer() {
    if (next_ == buffers_.size()) {
      Address made = 0;
      cuda.check(cuda.allocate(&made, most_elements * sizeof(float)), "cuMemAlloc");
      buffers_.push_back(made);
    }
    return buffers_[next_++];
  }
  void begin_case() { next_ = 0; }

  void spin(Stream stream, double milliseconds) {
    unsigned long long nanoseconds = static_cast<unsigned long long>(milliseconds * 1e6);
    void* parameters[] = {&nanoseconds};
    cuda.check(cuda.launch(spin_, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr), "cuLaunchKernel");
  }
  void fill(Address memory, float value, std::size_t elements, Stream stream) {
    cuda.check(cuda.set32(memory, std::bit_cast<unsigned>(value), elements, stream), "cuMemsetD32Async");
  }
  void all_reduce(ncclComm_t comm, Address send, Address recv, std::size_t elements, Stream stream) {
    nccl.check(nccl.all_reduce(reinterpret_cast<void*>(send), reinterpret_cast<void*>(recv), elements, ncclFloat32,
                               ncclSum, comm, stream),
               "ncclAllReduce");
  }

  void wait(Stream stream, const std::string& what = "a stream") {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(patience);
    for (;;) {
      const int state = cuda.stream_query(stream);
      if (state == cuda_success) return;
      if (state != cuda_not_ready) cuda.check(state, "cuStreamQuery");
      if (shared.broken) throw std::runtime_error("another rank has failed");
      if (std::chrono::steady_clock::now() > end) throw std::runtime_error(what + " does not end (hang)");
      ::sched_yield();
    }
  }
  // All elements of memory that nothing writes any more.
  void expect(Address memory, float value, std::size_t elements, const char* what) {
    std::vector<float> got(elements);
    const Stream own = stream();
    cuda.check(cuda.copy_out(got.data(), memory, elements * sizeof(float), own), "cuMemcpyDtoH");
    wait(own);
    cuda.check(cuda.stream_destroy(own), "cuStreamDestroy");
    for (std::size_t i = 0; i < elements; ++i) {
      if (got[i] == value) continue;
      throw std::runtime_error(std::string(what) + ": element " + std::to_string(i) + " of " +
                               std::to_string(elements) + " on rank " + std::to_string(rank) + " is " +
                               std::to_string(got[i]) + " instead of " + std::to_string(value));
    }
  }
  // What rank `of` puts in as the input of call k, and the sum over all.
  float input(int k) const { return static_cast<float>((rank + 1) * (k + 1)); }
  float sum(int k) const { return static_cast<float>(ranks * (ranks + 1) / 2 * (k + 1)); }

 private:
  Context context_ = nullptr;
  Function spin_ = nullptr;
  ncclComm_t comm_ = nullptr;
  std::vector<Address> buffers_;
  std::size_t next_ = 0;
};

struct Case {
  const char* name;
  std::function<void(Rank&)> body;
};

enum class Kind { threads, processes };

class Jobs {
 public:
  Jobs(std::vector<Case> cases, int patience, bool share)
      : cases_(std::move(cases)),
        patience_(patience),
        share_(share),
        shared_(static_cast<Shared*>(
            ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}

  // All chosen cases in one job, in a new one behind each that failed.
  void run(Kind kind, int ranks, const std::string& only) {
    std::memset(static_cast<void*>(shared_), 0, sizeof *shared_);
    shared_->one_gpu = share_;
    for (std::size_t i = 0; i < cases_.size(); ++i)
      if (std::string(cases_[i].name).find(only) == std::string::npos) shared_->result[i] = skipped;
    while (next() < int(cases_.size())) {
      const int first = next();
      shared_->arrived = shared_->broken = shared_->left = 0;
      shared_->current = first;
      shared_->message[0] = 0;
      watch(kind, ranks, start(kind, ranks));
    }
  }
  int count(int result) const { return counts_[result]; }

 private:
  int next() const {
    int i = 0;
    while (i < int(cases_.size()) && shared_->result[i] != not_run) ++i;
    return i;
  }

  std::vector<pid_t> start(Kind kind, int ranks) {
    std::vector<pid_t> children;
    std::fflush(nullptr);
    for (int p = 0; p < (kind == Kind::processes ? ranks : 1); ++p) {
      const pid_t child = ::fork();
      if (child == 0) {
        ::alarm(600);
        if (kind == Kind::processes) {
          run_rank(kind, p, ranks);
        } else {
          std::vector<std::thread> threads;
          for (int rank = 0; rank < ranks; ++rank) threads.emplace_back([=, this] { run_rank(kind, rank, ranks); });
          for (std::thread& thread : threads) thread.join();
        }
        ::_exit(0);
      }
      children.push_back(child);
    }
    return children;
  }

  void run_rank(Kind kind, int rank, int ranks) noexcept {
    try {
      // NCCL refuses two ranks on a GPU of one host.
      if (share_) ::setenv("NCCL_HOSTID", ("rank" + std::to_string(rank)).c_str(), 1);
      const Cuda* cuda = find_cuda_once();
      Rank self(*cuda, find_nccl_once(), *shared_, rank, ranks, patience_, kind == Kind::processes);
      // Who is still there when a rank has ended leaves the other cases to a new job.
      for (int i = next_for_all(self); i < int(cases_.size()) && shared_->left == 0; i = next_for_all(self))
        run_case(self, i);
    } catch (const std::exception& error) {
      fail(error.what());
    }
  }
  void run_case(Rank& self, int i) {
    std::string skip;
    self.begin_case();
    try {
      cases_[std::size_t(i)].body(self);
    } catch (const Skip& reason) {
      skip = reason.what();
    }
    self.barrier();
    if (self.rank == 0) {
      std::snprintf(shared_->message, sizeof shared_->message, "%s", skip.c_str());
      shared_->result[i] = skip.empty() ? passed : skipped;
    }
    self.barrier();
  }
  int next_for_all(Rank& self) {
    self.barrier();
    const int i = next();
    if (self.rank == 0) shared_->current = i;
    self.barrier();
    return i;
  }
  void fail(const char* why) {
    if (shared_->broken.exchange(1) == 0) std::snprintf(shared_->message, sizeof shared_->message, "%s", why);
    ::_exit(1);  // the other ranks of this process cannot go on either
  }
  static const Cuda* find_cuda_once() {
    static const Cuda* cuda = [] {
      const Cuda* found = find_cuda();
      found->check(found->init(0), "cuInit");
      return found;
    }();
    return cuda;
  }
  static const Nccl& find_nccl_once() {
    static const Nccl& nccl = find_nccl();
    return nccl;
  }

  void watch(Kind kind, int ranks, std::vector<pid_t> children) {
    const auto now = [] { return std::chrono::steady_clock::now(); };
    int current = -1;
    auto since = now();
    bool over = false;
    while (!children.empty()) {
      int status = 0;
      for (std::size_t i = 0; i < children.size();) {
        const bool gone = ::waitpid(children[i], &status, WNOHANG) == children[i];
        if (gone && (!WIFEXITED(status) || WEXITSTATUS(status) != 0)) {
          if (shared_->broken.exchange(1) == 0)
            std::snprintf(shared_->message, sizeof shared_->message, "a rank ended with status %d", status);
        }
        gone ? void(children.erase(children.begin() + long(i))) : void(++i);
      }
      report(kind, ranks);
      if (shared_->current != current) current = shared_->current, since = now();
      const double waited = std::chrono::duration<double>(now() - since).count();
      // Starting takes the first case longer; what has failed gets a moment to end by itself.
      if (!over && (shared_->broken || waited > 2 * patience_ + 40)) {
        over = true;
        if (shared_->broken.exchange(1) == 0)
          std::snprintf(shared_->message, sizeof shared_->message, "nothing happens any more (hang)");
        ::usleep(300000);
        for (const pid_t child : children) ::kill(child, SIGKILL);
      }
      ::usleep(2000);
    }
    if (shared_->broken && shared_->current < int(cases_.size())) shared_->result[shared_->current] = failed;
    report(kind, ranks);
  }

  void report(Kind kind, int ranks) {
    for (std::size_t i = 0; i < cases_.size(); ++i) {
      const int result = shared_->result[i];
      bool& told = told_[std::size_t(kind)][std::size_t(ranks)][i];
      if (result == not_run || told) continue;
      told = true;
      if (result == skipped && shared_->message[0] == 0) continue;  // not asked for
      ++counts_[result];
      static const char* const names[] = {"", "pass", "FAIL", "skip"};
      std::printf("%s %s/%d/%s%s%s\n", names[result], kind == Kind::threads ? "threads" : "processes", ranks,
                  cases_[i].name, result == passed ? "" : ": ", result == passed ? "" : shared_->message);
      std::fflush(stdout);
    }
  }

  std::vector<Case> cases_;
  int patience_;
  bool share_;
  Shared* shared_;
  bool told_[2][most_ranks + 1][most_cases] = {};
  int counts_[4] = {};
};

}  // namespace programs

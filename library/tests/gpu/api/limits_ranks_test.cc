// What the system may refuse to a program, and what the program may do to its threads: NCCL goes on alone, or all ranks
// are told; nobody waits for what does not come.
#include <dlfcn.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/time.h>

#include <cerrno>
#include <chrono>

#include "library/tests/gpu/ranks.h"

namespace {

std::atomic<bool> refuse_threads{false};

}  // namespace

// Sanitizers have a pthread_create of their own, large frames, and signals that come later.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define NOT_WITH_A_SANITIZER() GTEST_SKIP() << "not with a sanitizer"
#else
#define NOT_WITH_A_SANITIZER() static_cast<void>(0)

// In front of the C library's for this whole program.
extern "C" __attribute__((visibility("default"))) int pthread_create(pthread_t* thread,
                                                                     const pthread_attr_t* attributes,
                                                                     void* (*body)(void*), void* data) {
  if (refuse_threads) return EAGAIN;
  static const auto real = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  return real(thread, attributes, body, data);
}
#endif

namespace busbw::gpu::test {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::seconds;

ncclResult_t all_reduce(ncclComm_t comm) {
  static float value = 0;
  return ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, stream(7));
}

bool signals_are_blocked() {
  sigset_t now;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &now);
  return sigismember(&now, SIGUSR1) == 1;
}

// Two ranks, each a process.
void run_two(const std::function<void(const ncclUniqueId&, int rank)>& body) {
  const ncclUniqueId id = new_id();
  std::vector<pid_t> children;
  const auto begin = Clock::now();
  for (int rank = 0; rank < 2; ++rank) children.push_back(start_process([&, rank] { body(id, rank); }));
  for (const pid_t child : children) EXPECT_EQ(wait_for(child), 0);
  EXPECT_LT(Clock::now() - begin, seconds(8));
}

TEST(WithoutThreads, ACommunicatorIsLeftToNcclOnAllRanks) {
  NOT_WITH_A_SANITIZER();
  FakeDevices devices;
  run_two([](const ncclUniqueId& id, int rank) {
    refuse_threads = rank == 1;
    ncclComm_t comm = nullptr;
    ASSERT_EQ(ncclCommInitRank(&comm, 2, id, rank), ncclSuccess) << ncclGetLastError(nullptr);
    EXPECT_FALSE(accelerated(comm));
    EXPECT_FALSE(signals_are_blocked());
    float value = 1;
    EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr), ncclSuccess);
    EXPECT_EQ(value, 2);
    // The next one, with threads again.
    refuse_threads = false;
    barrier(comm);
    ncclComm_t next = nullptr;
    ASSERT_EQ(ncclCommSplit(comm, 0, rank, &next, nullptr), ncclSuccess);
    EXPECT_TRUE(accelerated(next)) << explain(next, Collective::all_reduce, 256);
    EXPECT_EQ(ncclCommDestroy(next), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  });
}

TEST(WithoutThreads, ACommunicatorCanBeUsedAndDestroyed) {
  NOT_WITH_A_SANITIZER();
  FakeDevices devices;
  run_two([](const ncclUniqueId& id, int rank) {
    ncclComm_t comm = nullptr;
    ASSERT_EQ(ncclCommInitRank(&comm, 2, id, rank), ncclSuccess) << ncclGetLastError(nullptr);
    ASSERT_TRUE(accelerated(comm));
    refuse_threads = true;
    EXPECT_EQ(all_reduce(comm), ncclSuccess);
    barrier(comm);
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
    EXPECT_TRUE(eventually([] { return FakeDevice::live_allocations() == 0; }, 2000));
    EXPECT_FALSE(signals_are_blocked());
  });
}

// Memory may be in use for as long as something runs.
TEST(WithoutThreads, AnAbortKeepsTheMemoryOfWhatStillRuns) {
  NOT_WITH_A_SANITIZER();
  FakeDevices devices;
  run_two([](const ncclUniqueId& id, int rank) {
    ncclComm_t comm = nullptr;
    ASSERT_EQ(ncclCommInitRank(&comm, 2, id, rank), ncclSuccess) << ncclGetLastError(nullptr);
    refuse_threads = true;
    my_device().events_done = false;
    EXPECT_EQ(all_reduce(comm), ncclSuccess);
    EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
    EXPECT_GT(FakeDevice::live_allocations(), 0);
  });
}

// As many as are open, and a few more.
TEST(WithoutDescriptors, NobodyWaitsForARankThatGetsNone) {
  for (int more = 0; more < 16; more += 3) {
    FakeDevices devices;
    run_two([more](const ncclUniqueId& id, int rank) {
      if (rank == 1) {
        const int next = ::dup(0);
        ::close(next);
        const rlimit limit{.rlim_cur = rlim_t(next + 12 + more), .rlim_max = rlim_t(next + 12 + more)};
        ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
      }
      ncclComm_t comm = nullptr;
      if (ncclCommInitRank(&comm, 2, id, rank) != ncclSuccess) return;
      float value = 1;
      if (!accelerated(comm)) {
        EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr), ncclSuccess);
      }
      EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
    });
  }
}

std::atomic<int> interruptions{0};

// Handlers without SA_RESTART, as programs with timers have them.
TEST(Signals, InterruptNothing) {
  NOT_WITH_A_SANITIZER();
  FakeDevices devices;
  devices.prepare = [](FakeDevice& device) { device.ranges_by_descriptor = true; };
  run_two([](const ncclUniqueId& id, int rank) {
    struct sigaction action{};
    action.sa_handler = [](int) { ++interruptions; };
    ::sigaction(SIGALRM, &action, nullptr);
    const itimerval often{.it_interval = {0, 300}, .it_value = {0, 300}};
    ::setitimer(ITIMER_REAL, &often, nullptr);
    ncclComm_t comm = nullptr;
    ASSERT_EQ(ncclCommInitRank(&comm, 2, id, rank), ncclSuccess) << ncclGetLastError(nullptr);
    ASSERT_TRUE(accelerated(comm)) << explain(comm, Collective::all_reduce, 256);
    FakeDevice& device = my_device();
    void* memory = device.allocate(1 << 22);
    ncclWindow_t window = nullptr;
    EXPECT_EQ(ncclCommWindowRegister(comm, memory, 1 << 22, &window, NCCL_WIN_COLL_SYMMETRIC), ncclSuccess);
    EXPECT_EQ(all_reduce(comm), ncclSuccess);
    barrier(comm);
    if (window) {
      EXPECT_EQ(ncclCommWindowDeregister(comm, window), ncclSuccess);
    }
    device.release(memory);
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
    const itimerval never{};
    ::setitimer(ITIMER_REAL, &never, nullptr);
    EXPECT_GT(interruptions, 0);
  });
}

TEST(SmallStacks, AreEnough) {
  NOT_WITH_A_SANITIZER();
  FakeDevices devices;
  const ncclUniqueId id = new_id();
  struct Rank {
    ncclUniqueId id;
    int rank;
  };
  Rank ranks[2] = {{id, 0}, {id, 1}};
  pthread_attr_t small;
  pthread_attr_init(&small);
  ASSERT_EQ(pthread_attr_setstacksize(&small, 64 * 1024), 0);
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i) {
    const auto body = [](void* data) -> void* {
      const Rank& mine = *static_cast<Rank*>(data);
      run_rank(mine.id, 2, mine.rank, [](ncclComm_t comm, int) {
        EXPECT_TRUE(accelerated(comm));
        EXPECT_EQ(ncclGroupStart(), ncclSuccess);
        for (int call = 0; call < 20; ++call) EXPECT_EQ(all_reduce(comm), ncclSuccess);
        EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
      });
      return nullptr;
    };
    ASSERT_EQ(pthread_create(&threads[i], &small, body, &ranks[i]), 0);
  }
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  pthread_attr_destroy(&small);
}

// Objects that were there before the communicator end it after main, when our own handlers have run.
TEST(TheEndOfAProgram, MayDestroyItsCommunicators) {
  FakeDevices devices;
  for (const bool late : {false, true}) {
    run_two([late](const ncclUniqueId& id, int rank) {
      static ncclComm_t comm = nullptr;
      static bool wrong = false;
      const auto at_the_end = [] {
        wrong |= ncclGroupStart() != ncclSuccess;
        wrong |= ncclCommDestroy(comm) != ncclSuccess;
        wrong |= ncclGroupEnd() != ncclSuccess;
        ::_exit(wrong ? 1 : 0);
      };
      if (late) std::atexit(at_the_end);  // runs behind what is registered from here on
      ASSERT_EQ(ncclCommInitRank(&comm, 2, id, rank), ncclSuccess) << ncclGetLastError(nullptr);
      EXPECT_EQ(all_reduce(comm), ncclSuccess);
      barrier(comm);
      wrong = ::testing::Test::HasFailure();
      if (!late) std::atexit(at_the_end);
      std::exit(0);
    });
  }
}

}  // namespace
}  // namespace busbw::gpu::test

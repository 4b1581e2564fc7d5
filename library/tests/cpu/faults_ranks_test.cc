// What goes wrong between ranks ends in an error that names the rank, on every other rank, within seconds.
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "library/cpu/bootstrap.h"
#include "library/tests/cpu/ranks.h"

namespace busbw::cpu::test {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// A process that is rank `rank`, runs `body` and ends.
[[maybe_unused]] pid_t start_process(const ncclUniqueId& id, int ranks, int rank, const RankBody& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    run_rank(id, ranks, rank, body);
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  return child;
}

[[maybe_unused]] int wait_for(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

ncclResult_t sum_one(ncclComm_t comm) {
  float value = 1;
  return ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr);
}

#if !defined(__SANITIZE_THREAD__)
TEST(KilledRank, IsNamedByEveryOtherRankWithinSeconds) {
  const ncclUniqueId id = new_id();
  const auto survivor = [](ncclComm_t comm, int) {
    ncclResult_t result = ncclSuccess;
    while (result == ncclSuccess) result = sum_one(comm);
    EXPECT_EQ(result, ncclRemoteError);
    const std::string why = ncclGetLastError(comm);
    EXPECT_TRUE(contains(why, "Rank 2 (pid ") && contains(why, "ended")) << why;
    // The communicator stays spoiled, and says so at once.
    EXPECT_EQ(sum_one(comm), ncclRemoteError);
    ncclResult_t async = ncclSuccess;
    EXPECT_EQ(ncclCommGetAsyncError(comm, &async), ncclSuccess);
    EXPECT_EQ(async, ncclRemoteError);
  };
  const pid_t first = start_process(id, 3, 0, survivor);
  const pid_t second = start_process(id, 3, 1, survivor);
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t victim = start_process(id, 3, 2, [&](ncclComm_t comm, int) {
    for (int call = 0; sum_one(comm) == ncclSuccess; ++call) {
      if (call == 100) {
        EXPECT_EQ(::write(ready[1], "", 1), 1);
      }
    }
  });
  ::close(ready[1]);
  char byte = 0;
  EXPECT_EQ(::read(ready[0], &byte, 1), 1) << "the ranks did not get to work";
  ::close(ready[0]);
  ::kill(victim, SIGKILL);
  const auto begin = Clock::now();
  // The victim is left a zombie until the others have noticed: that must be enough.
  EXPECT_EQ(wait_for(first), 0);
  EXPECT_EQ(wait_for(second), 0);
  EXPECT_LT(seconds_since(begin), 15.0);
  wait_for(victim);
}

TEST(KilledRank, EndsAMessageThatWaitsForIt) {
  const ncclUniqueId id = new_id();
  const pid_t victim = start_process(id, 2, 1, [](ncclComm_t, int) { ::raise(SIGKILL); });
  run_rank(id, 2, 0, [](ncclComm_t comm, int) {
    int value = 0;
    EXPECT_EQ(ncclRecv(&value, 1, ncclInt32, 1, comm, nullptr), ncclRemoteError);
    EXPECT_TRUE(contains(ncclGetLastError(comm), "Rank 1 (pid ")) << ncclGetLastError(comm);
  });
  wait_for(victim);
}

TEST(KilledRank, ThatFinishedItsPartFirstDoesNoHarm) {
  const ncclUniqueId id = new_id();
  const pid_t brief = start_process(id, 2, 1, [](ncclComm_t comm, int) {
    EXPECT_EQ(sum_one(comm), ncclSuccess);
    ::raise(SIGKILL);
  });
  run_rank(id, 2, 0, [](ncclComm_t comm, int) { EXPECT_EQ(sum_one(comm), ncclSuccess) << ncclGetLastError(comm); });
  wait_for(brief);
}

TEST(KilledRank, LeavesNothingInSharedMemory) {
  const ncclUniqueId id = new_id();
  const std::string segment = "/dev/shm" + UniqueId::from(id).segment_name();
  // Others may make segments of their own meanwhile: only this job's is looked for.
  const RankBody die = [](ncclComm_t, int) { ::raise(SIGKILL); };
  const pid_t first = start_process(id, 2, 0, die);
  const pid_t second = start_process(id, 2, 1, die);
  wait_for(first);
  wait_for(second);
  EXPECT_FALSE(std::filesystem::exists(segment)) << segment;
}
#endif

TEST(Abort, FreesAWaitingCallAndTellsTheOthers) {
  std::atomic<ncclComm_t> waiting{nullptr};
  std::atomic<bool> returned{false};
  const ncclUniqueId id = new_id();
  std::thread first([&] {
    ncclComm_t comm = nullptr;
    ASSERT_EQ(ncclCommInitRank(&comm, 2, id, 0), ncclSuccess);
    waiting = comm;
    EXPECT_EQ(sum_one(comm), ncclInvalidUsage);
    returned = true;
  });
  std::thread second([&] {
    ncclComm_t comm = nullptr;
    ASSERT_EQ(ncclCommInitRank(&comm, 2, id, 1), ncclSuccess);
    while (!waiting) std::this_thread::yield();
    ::usleep(50'000);
    const auto begin = Clock::now();
    EXPECT_EQ(ncclCommAbort(waiting), ncclSuccess);
    EXPECT_LT(seconds_since(begin), 10.0);
    EXPECT_EQ(sum_one(comm), ncclRemoteError);
    EXPECT_TRUE(contains(ncclGetLastError(comm), "Rank 0")) << ncclGetLastError(comm);
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  });
  first.join();
  second.join();
  EXPECT_TRUE(returned);
}

TEST(DestroyedCommunicator, IsReportedToARankThatStillWaits) {
  run_placed({1, 2}, [](ncclComm_t comm, int rank) {
    if (rank == 1) return;
    EXPECT_EQ(sum_one(comm), ncclRemoteError);
    EXPECT_TRUE(contains(ncclGetLastError(comm), "Rank 1")) << ncclGetLastError(comm);
  });
}

struct Disagreement {
  const char* name;
  Collective zero, one;
  const char* part_of_zero;
  const char* part_of_one;
};

TEST(Mismatch, IsReportedOnAllRanksWithBothCalls) {
  const Disagreement cases[] = {
      {"count", {.type = ncclFloat32, .count = 8}, {.type = ncclFloat32, .count = 9}, "8 float", "9 float"},
      {"type", {.type = ncclFloat32, .count = 8}, {.type = ncclInt32, .count = 8}, "8 float", "8 int32"},
      {"operation",
       {.type = ncclInt8, .reduction = Reduction::max, .count = 8},
       {.type = ncclInt8, .reduction = Reduction::min, .count = 8},
       "max",
       "min"},
      {"root",
       {.kind = CollectiveKind::broadcast, .root = 0, .count = 8},
       {.kind = CollectiveKind::broadcast, .root = 1, .count = 8},
       "root 0",
       "root 1"},
      {"collective and size",
       {.type = ncclInt8, .count = 300000},
       {.kind = CollectiveKind::all_gather, .type = ncclInt8, .count = 4},
       "all_reduce of 300000",
       "all_gather of 4"},
  };
  for (const Disagreement& wrong : cases) {
    run_placed({1, 2}, [&](ncclComm_t comm, int rank) {
      Bytes send(1 << 20), recv(1 << 20);
      Collective call = rank == 0 ? wrong.zero : wrong.one;
      call.send = send.data();
      call.recv = recv.data();
      EXPECT_EQ(call_api(call, ncclRedOp_t(int(call.reduction)), comm), ncclInvalidUsage) << wrong.name;
      const std::string why = ncclGetLastError(comm);
      EXPECT_TRUE(contains(why, wrong.part_of_zero) && contains(why, wrong.part_of_one)) << why;
    });
  }
}

TEST(Mismatch, OfAMessagesSizeIsReported) {
  run_placed({1, 2}, [](ncclComm_t comm, int rank) {
    Bytes data(100);
    if (rank == 0) {
      ASSERT_EQ(ncclSend(data.data(), 10, ncclInt8, 1, comm, nullptr), ncclSuccess);
    } else {
      EXPECT_EQ(ncclRecv(data.data(), 20, ncclInt8, 0, comm, nullptr), ncclInvalidUsage);
      EXPECT_TRUE(contains(ncclGetLastError(comm), "sent 10 bytes")) << ncclGetLastError(comm);
    }
  });
}

TEST(Init, NamesTheRanksThatDidNotCome) {
  ::setenv("BUSBW_CPU_TIMEOUT", "0.3", 1);
  const ncclUniqueId id = new_id();
  ncclComm_t comm = nullptr;
  const auto begin = Clock::now();
  EXPECT_EQ(ncclCommInitRank(&comm, 3, id, 0), ncclTimeout);
  EXPECT_TRUE(contains(ncclGetLastError(nullptr), "ranks 1, 2")) << ncclGetLastError(nullptr);
  EXPECT_EQ(ncclCommInitRank(&comm, 3, new_id(), 1), ncclTimeout);
  EXPECT_TRUE(contains(ncclGetLastError(nullptr), "Rank 0")) << ncclGetLastError(nullptr);
  EXPECT_LT(seconds_since(begin), 15.0);
  ::unsetenv("BUSBW_CPU_TIMEOUT");
}

TEST(Init, TellsEveryRankOfTheProcessAtOnceThatMemoryIsMissing) {
  // A limit of file sizes holds for memory that ranks share too: the next best thing to a full /dev/shm.
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit unlimited{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &unlimited), 0);
  const rlimit small{.rlim_cur = 4096, .rlim_max = unlimited.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const ncclUniqueId id = new_id();
  const auto begin = Clock::now();
  std::vector<std::thread> threads;
  std::vector<ncclResult_t> results(2, ncclSuccess);
  std::vector<std::string> said(2);
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      ncclComm_t comm = nullptr;
      results[std::size_t(rank)] = ncclCommInitRank(&comm, 2, id, rank);
      said[std::size_t(rank)] = ncclGetLastError(nullptr);
    });
  }
  for (std::thread& thread : threads) thread.join();
  ::setrlimit(RLIMIT_FSIZE, &unlimited);
  std::signal(SIGXFSZ, before);
  EXPECT_LT(seconds_since(begin), 15.0);  // and not after the minute that a rank 0 may take
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(results[std::size_t(rank)], ncclSystemError);
    EXPECT_TRUE(contains(said[std::size_t(rank)].c_str(), "File too large")) << said[std::size_t(rank)];
  }
}

#if !defined(__SANITIZE_THREAD__)
bool ended_well(pid_t child) {
  const int status = wait_for(child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// A name is a file that stays behind where all ranks are killed: it is for ranks that can find the memory by no other
// way, not for late ones.
TEST(Init, MakesNoFileWhileItWaitsForALateRank) {
  const ncclUniqueId id = new_id();
  const std::string segment = "/dev/shm" + UniqueId::from(id).segment_name();
  const pid_t first = start_process(id, 2, 0, [](ncclComm_t, int) {});
  bool seen = false;
  for (const auto begin = Clock::now(); seconds_since(begin) < 1.5; ::usleep(10'000))
    seen = seen || std::filesystem::exists(segment);
  EXPECT_FALSE(seen);
  EXPECT_TRUE(ended_well(start_process(id, 2, 1, [](ncclComm_t, int) {})));
  EXPECT_TRUE(ended_well(first));
}

TEST(Init, SucceedsThoughARankHasMetAllAndGoneWhileThisOneSlept) {
  const ncclUniqueId id = new_id();
  const auto nothing = [](ncclComm_t, int) {};
  const pid_t first = start_process(id, 3, 0, nothing), sleeper = start_process(id, 3, 1, nothing);
  ::usleep(300'000);  // both wait for rank 2
  ASSERT_EQ(::kill(sleeper, SIGSTOP), 0);
  EXPECT_TRUE(ended_well(start_process(id, 3, 2, nothing)));
  ::usleep(100'000);
  ASSERT_EQ(::kill(sleeper, SIGCONT), 0);
  EXPECT_TRUE(ended_well(sleeper));
  EXPECT_TRUE(ended_well(first));
}

TEST(Init, MeetsARankInAnotherNetworkNamespaceAndLeavesNoFile) {
  const ncclUniqueId id = new_id();
  const auto sum = [](ncclComm_t comm, int) { EXPECT_EQ(sum_one(comm), ncclSuccess) << ncclGetLastError(comm); };
  constexpr int not_allowed = 77;
  const pid_t away = ::fork();
  if (away == 0) {
    if (::unshare(CLONE_NEWNET) != 0) ::_exit(not_allowed);
    run_rank(id, 2, 1, sum);
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  const pid_t here = start_process(id, 2, 0, sum);
  const int status = wait_for(away);
  if (WIFEXITED(status) && WEXITSTATUS(status) == not_allowed) {
    ::kill(here, SIGKILL);
    wait_for(here);
    GTEST_SKIP() << "this user may not make network namespaces";
  }
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(ended_well(here));
  EXPECT_FALSE(std::filesystem::exists("/dev/shm" + UniqueId::from(id).segment_name()));
}

TEST(Init, RemovesFilesOfKilledRanksAndNoOthers) {
  const auto path_of = [](const char* kind) {
    return "/dev/shm/busbw-cpu-test-" + std::string(kind) + "-" + std::to_string(::getpid());
  };
  const auto make = [&](const char* kind, time_t age_s) {
    const int file = ::open(path_of(kind).c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    const timespec when{.tv_sec = ::time(nullptr) - age_s, .tv_nsec = 0};
    const timespec times[2] = {when, when};
    EXPECT_EQ(::futimens(file, times), 0);
    return file;
  };
  const int abandoned = make("abandoned", 60), young = make("young", 0), held = make("held", 60);
  EXPECT_EQ(::flock(held, LOCK_EX), 0);
  EXPECT_TRUE(ended_well(start_process(new_id(), 1, 0, [](ncclComm_t, int) {})));
  EXPECT_FALSE(std::filesystem::exists(path_of("abandoned")));
  EXPECT_TRUE(std::filesystem::exists(path_of("young")));
  EXPECT_TRUE(std::filesystem::exists(path_of("held")));
  for (const int file : {abandoned, young, held}) ::close(file);
  for (const char* kind : {"abandoned", "young", "held"}) ::unlink(path_of(kind).c_str());
}
#endif

TEST(Init, RefusesRanksThatDisagreeOnTheirNumber) {
  const ncclUniqueId id = new_id();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      ncclComm_t comm = nullptr;
      EXPECT_EQ(ncclCommInitRank(&comm, 2 + rank, id, rank), ncclInvalidArgument);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Init, RefusesTheSameRankTwice) {
  const ncclUniqueId id = new_id();
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      ncclComm_t comm = nullptr;
      EXPECT_EQ(ncclCommInitRank(&comm, 3, id, i == 0 ? 0 : 1), ncclInvalidUsage) << ncclGetLastError(nullptr);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Init, RefusesACommunicatorOfNobodyOrOfTooMany) {
  ncclComm_t comm = nullptr;
  for (const int ranks : {0, -1, max_ranks + 1}) {
    EXPECT_EQ(ncclCommInitAll(&comm, ranks, nullptr), ncclInvalidArgument) << ranks;
    EXPECT_TRUE(contains(ncclGetLastError(nullptr), std::to_string(ranks) + " ranks")) << ncclGetLastError(nullptr);
    EXPECT_EQ(ncclCommInitRank(&comm, ranks, new_id(), 0), ncclInvalidArgument) << ranks;
  }
  EXPECT_EQ(ncclCommInitAll(nullptr, 2, nullptr), ncclInvalidArgument);
  EXPECT_EQ(comm, nullptr);
}

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
// Stacks that no address space can hold: the system then gives no thread.
TEST(Group, SaysWhereTheSystemGivesNoThread) {
  pthread_attr_t usual, hopeless;
  ASSERT_EQ(::pthread_getattr_default_np(&usual), 0);
  ASSERT_EQ(::pthread_getattr_default_np(&hopeless), 0);
  ASSERT_EQ(::pthread_attr_setstacksize(&hopeless, std::size_t{1} << 50), 0);
  ASSERT_EQ(::pthread_setattr_default_np(&hopeless), 0);
  ncclComm_t comms[3] = {};
  EXPECT_EQ(ncclCommInitAll(comms, 3, nullptr), ncclSystemError);
  EXPECT_TRUE(contains(ncclGetLastError(nullptr), "needs a thread for each")) << ncclGetLastError(nullptr);
  ASSERT_EQ(::pthread_setattr_default_np(&usual), 0);
  ASSERT_EQ(ncclCommInitAll(comms, 3, nullptr), ncclSuccess) << ncclGetLastError(nullptr);
  for (ncclComm_t comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}
#endif

std::ptrdiff_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

TEST(Memory, OfNcclMemAllocHoldsNoDescriptor) {
  const auto before = open_descriptors();
  std::vector<void*> blocks(200);
  for (void*& block : blocks) ASSERT_EQ(ncclMemAlloc(&block, 1 << 16), ncclSuccess);
  EXPECT_EQ(open_descriptors(), before);
  run_placed({1, 2}, [&](ncclComm_t comm, int rank) {
    void* mine = blocks[std::size_t(rank)];
    EXPECT_EQ(ncclAllReduce(mine, mine, 1 << 14, ncclFloat32, ncclSum, comm, nullptr), ncclSuccess);
  });
  for (void* block : blocks) EXPECT_EQ(ncclMemFree(block), ncclSuccess);
  EXPECT_EQ(open_descriptors(), before) << "nor does a communicator that has gone";
}

TEST(Init, RefusesAnIdThatIsNotOurs) {
  ncclUniqueId id{};
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRank(&comm, 2, id, 0), ncclInvalidArgument);
  id = new_id();
  id.internal[8] ^= 1;  // version
  EXPECT_EQ(ncclCommInitRank(&comm, 2, id, 0), ncclInvalidUsage);
  id = new_id();
  id.internal[12] ^= 1;  // user
  EXPECT_EQ(ncclCommInitRank(&comm, 2, id, 0), ncclInvalidUsage);
  id = new_id();
  id.internal[16] ^= 1;  // host
  EXPECT_EQ(ncclCommInitRank(&comm, 2, id, 0), ncclInvalidUsage);
}

// A segment of the right name that is not what it claims to be.
TEST(Init, RefusesAForgedSegment) {
  ::setenv("BUSBW_CPU_TIMEOUT", "0.3", 1);
  for (const std::size_t size : {std::size_t{0}, std::size_t{100}, std::size_t{8192}}) {
    const ncclUniqueId id = new_id();
    const std::string name = UniqueId::from(id).segment_name();
    const int file = ::shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
    ASSERT_GE(file, 0);
    ASSERT_EQ(::ftruncate(file, off_t(size)), 0);
    if (size == 8192) {
      const struct {
        std::uint64_t magic;
        std::uint32_t version;
        std::int32_t ranks;
        std::uint64_t total_bytes;
      } claim{segment_magic, segment_version, 2, Layout::for_ranks(2).total_bytes()};
      ASSERT_EQ(::pwrite(file, &claim, sizeof claim, 0), ssize_t(sizeof claim));
    }
    ncclComm_t comm = nullptr;
    EXPECT_EQ(ncclCommInitRank(&comm, 2, id, 1), size == 8192 ? ncclInvalidUsage : ncclTimeout);
    ::close(file);
    ::shm_unlink(name.c_str());
  }
  ::unsetenv("BUSBW_CPU_TIMEOUT");
}

TEST(Arguments, ThatMakeNoSenseAreRefusedAndDoNoHarm) {
  run_placed({1, 2}, [](ncclComm_t comm, int rank) {
    float value = 1;
    EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclRedOp_t(77), comm, nullptr), ncclInvalidArgument);
    EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclDataType_t(12), ncclSum, comm, nullptr), ncclInvalidArgument);
    EXPECT_EQ(ncclAllReduce(nullptr, &value, 1, ncclFloat32, ncclSum, comm, nullptr), ncclInvalidArgument);
    EXPECT_EQ(ncclAllReduce(&value, &value, SIZE_MAX / 3, ncclFloat32, ncclSum, comm, nullptr), ncclInvalidArgument);
    EXPECT_EQ(ncclBroadcast(&value, &value, 1, ncclFloat32, 2, comm, nullptr), ncclInvalidArgument);
    EXPECT_EQ(ncclSend(&value, 1, ncclFloat32, -1, comm, nullptr), ncclInvalidArgument);
    EXPECT_EQ(ncclSend(&value, 1, ncclFloat32, rank, comm, nullptr), ncclInvalidUsage);
    EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, nullptr, nullptr), ncclInvalidArgument);
    EXPECT_EQ(ncclMemFree(&value), ncclInvalidArgument);
  });
}

}  // namespace
}  // namespace busbw::cpu::test

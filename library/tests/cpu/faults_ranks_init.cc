// Part of faults_ranks_test: ranks that do not come, come late or disagree, and what lies about in shared memory.
#include "library/tests/cpu/ended_ranks.h"
namespace busbw::cpu::test {
namespace {

TEST(Process, LivesWhateverItsName) {
  const char before[16] = "";
  ASSERT_EQ(::prctl(PR_GET_NAME, before), 0);
  ASSERT_EQ(::prctl(PR_SET_NAME, "a) Z 1 (\n"), 0);
  // Its parent asks: of itself a process knows.
  int here[2];
  ASSERT_EQ(::pipe(here), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const ProcessIdentity me = this_process();
    [[maybe_unused]] const ssize_t written = ::write(here[1], &me, sizeof me);
    ::pause();
    ::_exit(0);
  }
  ASSERT_EQ(::prctl(PR_SET_NAME, before), 0);
  ProcessIdentity other{};
  ASSERT_EQ(::read(here[0], &other, sizeof other), ssize_t(sizeof other));
  EXPECT_NE(other.start_time, 0U);
  EXPECT_EQ(life_of(other), Life::alive);
  ::kill(child, SIGKILL);
  wait_for(child);
  EXPECT_EQ(life_of(other), Life::ended);
  ::close(here[0]);
  ::close(here[1]);
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
  // A limit of file sizes holds for memory that ranks share too. Its signal, which is not handled here, must not come.
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
  EXPECT_LT(seconds_since(begin), 15.0);  // and not after the minute that a rank 0 may take
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(results[std::size_t(rank)], ncclSystemError);
    EXPECT_TRUE(contains(said[std::size_t(rank)].c_str(), "File too large")) << said[std::size_t(rank)];
    EXPECT_TRUE(contains(said[std::size_t(rank)].c_str(), "ulimit -f")) << said[std::size_t(rank)];
  }
}

TEST(Init, DoesNotWaitForARankZeroOfTheProcessThatHasFailed) {
  const ncclUniqueId id = new_id();
  ncclComm_t comm = nullptr;
  ::setenv("BUSBW_CPU_TIMEOUT", "0.3", 1);
  EXPECT_EQ(ncclCommInitRank(&comm, 2, id, 0), ncclTimeout);
  ::unsetenv("BUSBW_CPU_TIMEOUT");
  const auto begin = Clock::now();
  EXPECT_EQ(ncclCommInitRank(&comm, 2, id, 1), ncclTimeout);
  EXPECT_TRUE(contains(ncclGetLastError(nullptr), "rank 1 did not come")) << ncclGetLastError(nullptr);
  EXPECT_LT(seconds_since(begin), 15.0);  // and not after a minute
}

TEST(Init, SaysWhatToDoWhereTooFewFilesMayBeOpen) {
  const ncclUniqueId id = new_id();
  ncclComm_t comm = nullptr;
  // The sanitizer for undefined behaviour looks at an object of a class through a pipe of its own the first time that
  // it meets it, and calls the object broken where it gets none. So an error of the library is met before the limit.
  ASSERT_NE(ncclCommInitRank(&comm, 0, id, 0), ncclSuccess);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const ncclResult_t result = ncclCommInitRank(&comm, 2, id, 0);
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(result, ncclSystemError);
  EXPECT_TRUE(contains(ncclGetLastError(nullptr), "ulimit -n")) << ncclGetLastError(nullptr);
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

bool maps_segment(pid_t process) {
  std::ifstream maps("/proc/" + std::to_string(process) + "/maps");
  const std::string text{std::istreambuf_iterator<char>(maps), {}};
  return text.find("/dev/shm/") != std::string::npos || text.find("memfd:busbw-cpu") != std::string::npos;
}

TEST(Init, SucceedsThoughARankHasMetAllAndGoneWhileThisOneSlept) {
  const ncclUniqueId id = new_id();
  const auto nothing = [](ncclComm_t, int) {};
  const pid_t first = start_process(id, 3, 0, nothing), sleeper = start_process(id, 3, 1, nothing);
  for (const auto begin = Clock::now(); !maps_segment(sleeper) && seconds_since(begin) < 10;) ::usleep(1000);
  ASSERT_TRUE(maps_segment(sleeper));
  ::usleep(200'000);  // both wait for rank 2
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

}  // namespace
}  // namespace busbw::cpu::test

// Ranks notice within a second that one of them is gone, whatever else happens on their sockets.
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include <chrono>

#include "library/gpu/watch/watch.h"
#include "library/tests/gpu/ranks.h"

namespace busbw::gpu::test {
namespace {

using std::chrono::seconds;

// The seats of one communicator in this process, rank 0 first.
struct Table {
  explicit Table(int ranks) {
    for (int rank = 0; rank < ranks; ++rank) health.push_back(std::make_shared<Health>());
    seats.push_back(WatchSeat::listen(ranks, health[0]));
    for (int rank = 1; rank < ranks; ++rank) {
      seats.push_back(WatchSeat::connect(seats[0]->address(), rank, ranks, health[std::size_t(rank)]));
    }
    for (auto& seat : seats) seat->introduce(names(ranks));
  }
  static std::vector<std::string> names(int ranks) {
    std::vector<std::string> who;
    for (int rank = 0; rank < ranks; ++rank) who.push_back(text("pid %d on GPU 0000:%02x:00.0", 1000 + rank, rank));
    return who;
  }
  bool complete() {
    bool all = true;
    for (auto& seat : seats) all = seat->wait_until_complete(WatchClock::now() + seconds(10)) && all;
    return all;
  }
  bool all_well() const {
    for (const auto& one : health)
      if (one->code() != ncclSuccess) return false;
    return true;
  }
  std::vector<std::shared_ptr<Health>> health;
  std::vector<std::unique_ptr<WatchSeat>> seats;
};

bool poisoned(const std::shared_ptr<Health>& health) {
  return eventually([&] { return health->code() == ncclRemoteError; }, 2000);
}

// A connection to rank 0 as a stranger would make it, who has read /proc/net/unix.
int stranger(const WatchAddress& to) {
  const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const int length = std::snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "busbw-gpu-%016llx",
                                   static_cast<unsigned long long>(to.name));
  EXPECT_EQ(::connect(socket, reinterpret_cast<sockaddr*>(&address),
                      socklen_t(offsetof(sockaddr_un, sun_path) + 1 + std::size_t(length))),
            0);
  return socket;
}

bool closed_by_peer(int socket) {
  char byte;
  return eventually([&] {
    const ssize_t got = ::recv(socket, &byte, 1, MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN);
  });
}

TEST(Watch, IsCompleteWhenEveryRankHasCome) {
  Table table(4);
  EXPECT_TRUE(table.complete());
  EXPECT_TRUE(table.all_well());
}

TEST(Watch, IsNotCompleteWithoutTheLastRank) {
  auto health = std::make_shared<Health>();
  const auto seat = WatchSeat::listen(3, health);
  const auto one = WatchSeat::connect(seat->address(), 1, 3, health);
  EXPECT_FALSE(seat->wait_until_complete(WatchClock::now() + std::chrono::milliseconds(50)));
}

TEST(Watch, RanksThatLeaveOneAfterTheOtherPoisonNobody) {
  Table table(3);
  ASSERT_TRUE(table.complete());
  std::atomic<int> released{0};
  for (auto& seat : table.seats) {
    EXPECT_EQ(released, 0) << "memory went while a rank still held it";
    seat->leave([&] { ++released; }, seconds(30));
    ::usleep(20'000);
  }
  EXPECT_TRUE(eventually([&] { return released == 3; }));
  EXPECT_TRUE(table.all_well());
}

TEST(Watch, MemoryGoesAfterAWhileWhereAPeerNeverLeaves) {
  Table table(2);
  ASSERT_TRUE(table.complete());
  std::atomic<bool> released{false};
  table.seats[0]->leave([&] { released = true; }, std::chrono::milliseconds(30));
  EXPECT_TRUE(eventually([&] { return released.load(); }));
}

TEST(Watch, AnAbortReachesEveryOtherRank) {
  Table table(4);
  ASSERT_TRUE(table.complete());
  table.seats[2]->announce_abort();
  for (const int rank : {0, 1, 3}) {
    ASSERT_TRUE(poisoned(table.health[std::size_t(rank)])) << rank;
    const std::string why = table.health[std::size_t(rank)]->sentence();
    EXPECT_TRUE(contains(why, "rank 2 (pid 1002 on GPU 0000:02:00.0)") && contains(why, "ncclCommAbort")) << why;
  }
  EXPECT_EQ(table.health[2]->code(), ncclSuccess);
}

// A kernel that is ended sends whatever it has; nobody shall take that for a result.
TEST(Watch, EveryRankKnowsOfALossBeforeAnyKernelIsEnded) {
  Table table(3);
  ASSERT_TRUE(table.complete());
  std::uint32_t words[3] = {};
  for (int rank = 0; rank < 3; ++rank) table.health[std::size_t(rank)]->set_abort_word(&words[rank]);
  const auto begin = WatchClock::now();
  table.seats[1]->announce_abort();
  const auto ended = [&](int rank) { return __atomic_load_n(&words[rank], __ATOMIC_ACQUIRE) != 0; };
  while (!ended(0) && !ended(1) && !ended(2)) {
    ASSERT_LT(WatchClock::now() - begin, seconds(2));
    ::usleep(500);
  }
  EXPECT_GE(WatchClock::now() - begin, std::chrono::milliseconds(200));
  for (const int rank : {0, 2}) EXPECT_EQ(table.health[std::size_t(rank)]->code(), ncclRemoteError) << rank;
  EXPECT_TRUE(eventually([&] { return ended(0) && ended(1) && ended(2); }, 200));
  for (const auto& health : table.health) health->set_abort_word(nullptr);
}

TEST(Watch, AFailureComesWithItsReason) {
  Table table(3);
  ASSERT_TRUE(table.complete());
  table.seats[0]->announce_failure("its launch failed");
  for (const int rank : {1, 2}) {
    ASSERT_TRUE(poisoned(table.health[std::size_t(rank)]));
    EXPECT_TRUE(contains(table.health[std::size_t(rank)]->sentence(), "cannot go on: its launch failed"));
  }
}

TEST(Watch, PoisonEndsWhatWaitsOnTheGpu) {
  Table table(2);
  ASSERT_TRUE(table.complete());
  std::uint32_t word = 0;
  table.health[1]->set_abort_word(&word);
  table.seats[0]->announce_abort();
  EXPECT_TRUE(eventually([&] { return __atomic_load_n(&word, __ATOMIC_ACQUIRE) == 1; }));
  table.health[1]->set_abort_word(nullptr);
}

TEST(Strangers, ThatDoNotKnowTheSecretAreSentAway) {
  Table table(2);
  ASSERT_TRUE(table.complete());
  Frame hello = make_frame(FrameKind::hello, 1);
  const int socket = stranger(table.seats[0]->address());
  ASSERT_EQ(::send(socket, &hello, sizeof hello, 0), ssize_t(sizeof hello));
  EXPECT_TRUE(closed_by_peer(socket));
  ::close(socket);
  EXPECT_TRUE(table.all_well());
}

TEST(Strangers, CannotTakeARanksPlaceBeforeItComesNorSpeakForIt) {
  auto root_health = std::make_shared<Health>();
  auto seat = WatchSeat::listen(2, root_health);
  for (const FrameKind kind : {FrameKind::hello, FrameKind::aborted, FrameKind::ended, FrameKind::all_closed}) {
    const int socket = stranger(seat->address());
    Frame frame = make_frame(kind, 1);
    ASSERT_EQ(::send(socket, &frame, sizeof frame, 0), ssize_t(sizeof frame));
    EXPECT_TRUE(closed_by_peer(socket));
    ::close(socket);
  }
  auto health = std::make_shared<Health>();
  auto member = WatchSeat::connect(seat->address(), 1, 2, health);
  EXPECT_TRUE(seat->wait_until_complete(WatchClock::now() + seconds(10)));
  EXPECT_TRUE(member->wait_until_complete(WatchClock::now() + seconds(10)));
  EXPECT_EQ(root_health->code(), ncclSuccess);
  member->leave(nullptr, seconds(1));
}

TEST(Strangers, WithAnyBytesDisturbNobody) {
  Table table(3);
  ASSERT_TRUE(table.complete());
  unsigned random = 1;
  for (int round = 0; round < 100; ++round) {
    const int socket = stranger(table.seats[0]->address());
    unsigned char bytes[600];
    for (unsigned char& byte : bytes) byte = static_cast<unsigned char>((random = random * 1664525 + 1013904223) >> 24);
    // May find itself sent away already.
    (void)::send(socket, bytes, random % sizeof bytes, MSG_NOSIGNAL);
    ::close(socket);
  }
  ::usleep(50'000);
  EXPECT_TRUE(table.all_well());
  table.seats[1]->announce_abort();
  EXPECT_TRUE(poisoned(table.health[2]));
}

// Everything forks before this process has threads: rank 0 is a child as well.
void run_with_rank_0_and_1(const std::function<void(WatchSeat&)>& victim,
                           const std::function<void(WatchSeat&, Health&, pid_t victim)>& survivor) {
  const pid_t observer = start_process([&] {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    WatchAddress address;
    const pid_t other = start_process([&] {
      WatchAddress where;
      ASSERT_EQ(::read(ends[0], &where, sizeof where), ssize_t(sizeof where));
      auto health = std::make_shared<Health>();
      auto seat = WatchSeat::connect(where, 1, 2, health);
      ASSERT_TRUE(seat->wait_until_complete(WatchClock::now() + seconds(20)));
      victim(*seat);
      seat.release();
    });
    auto health = std::make_shared<Health>();
    auto seat = WatchSeat::listen(2, health);
    seat->introduce(Table::names(2));
    address = seat->address();
    ASSERT_EQ(::write(ends[1], &address, sizeof address), ssize_t(sizeof address));
    ASSERT_TRUE(seat->wait_until_complete(WatchClock::now() + seconds(20)));
    survivor(*seat, *health, other);
    ::kill(other, SIGKILL);
    wait_for(other);
  });
  EXPECT_EQ(wait_for(observer), 0);
}

bool poisoned(const Health& health) {
  return eventually([&] { return health.code() == ncclRemoteError; }, 1500);
}

TEST(LostProcess, IsNoticedWhileItIsStillAZombie) {
  run_with_rank_0_and_1([](WatchSeat&) { ::pause(); },
                        [](WatchSeat&, Health& health, pid_t victim) {
                          ::usleep(50'000);
                          EXPECT_EQ(health.code(), ncclSuccess);
                          ::kill(victim, SIGKILL);
                          EXPECT_TRUE(poisoned(health));
                          EXPECT_TRUE(contains(health.sentence(), "rank 1 (pid 1001 on GPU 0000:01:00.0)"))
                              << health.sentence();
                        });
}

TEST(LostProcess, IsNoticedThoughAChildOfItKeepsItsSocketsOpen) {
  run_with_rank_0_and_1(
      [](WatchSeat&) {
        // As a library would that knows nothing of us: no handler for forks runs.
        if (::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) == 0) {
          ::sleep(8);
          ::_exit(0);
        }
        ::pause();
      },
      [](WatchSeat&, Health& health, pid_t victim) {
        ::usleep(100'000);
        ::kill(victim, SIGKILL);
        EXPECT_TRUE(poisoned(health));
      });
}

TEST(LostProcess, ThatOnlyForkedAChildWhichEndedIsNotLost) {
  run_with_rank_0_and_1(
      [](WatchSeat&) {
        const pid_t child = ::fork();
        if (child == 0) ::exit(0);  // with all that runs at an exit
        ::waitpid(child, nullptr, 0);
        ::pause();
      },
      [](WatchSeat&, Health& health, pid_t) {
        ::usleep(600'000);
        EXPECT_EQ(health.code(), ncclSuccess) << health.sentence();
      });
}

TEST(LostProcess, ThatHasLeftBeforeIsNoLoss) {
  run_with_rank_0_and_1(
      [](WatchSeat& seat) {
        seat.leave(nullptr, seconds(1));
        ::usleep(50'000);
      },
      [](WatchSeat&, Health& health, pid_t) {
        ::usleep(600'000);
        EXPECT_EQ(health.code(), ncclSuccess) << health.sentence();
      });
}

TEST(LostProcess, ThatExitsWithoutLeavingIsLostAndTheSentenceSaysHow) {
  run_with_rank_0_and_1([](WatchSeat&) { ::exit(0); },
                        [](WatchSeat&, Health& health, pid_t) {
                          EXPECT_TRUE(poisoned(health));
                          EXPECT_TRUE(contains(health.sentence(), "without destroying the communicator"))
                              << health.sentence();
                        });
}

}  // namespace
}  // namespace busbw::gpu::test

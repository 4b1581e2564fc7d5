// Non-blocking communicators are accelerated too, and keep the program no longer than NCCL's do.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <latch>
#include <mutex>

#include "library/common/nccl/real_nccl.h"
#include "library/tests/gpu/ranks.h"

namespace busbw::gpu::test {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

const int nccl_is_slow = ::setenv("BUSBW_REAL_NCCL", BUSBW_TEST_SLOW_NCCL, 1);

// NCCL takes so long for each thing: longer than a test's thread may be kept from running.
struct Pace {
  explicit Pace(int milliseconds) {
    ::setenv("BUSBW_TEST_SLOW_NCCL_MILLISECONDS", std::to_string(milliseconds).c_str(), 1);
  }
  ~Pace() { ::unsetenv("BUSBW_TEST_SLOW_NCCL_MILLISECONDS"); }
};

ncclConfig_t non_blocking() {
  ncclConfig_t config;
  std::fill_n(reinterpret_cast<int*>(&config), sizeof config / sizeof(int), int(NCCL_CONFIG_UNDEF_INT));
  config.size = sizeof config;
  config.netName = config.commName = nullptr;
  config.magic = unsigned(NCCL_API_MAGIC);
  config.blocking = 0;
  return config;
}

ncclResult_t async_error(ncclComm_t comm) {
  ncclResult_t error = ncclInternalError;
  EXPECT_EQ(ncclCommGetAsyncError(comm, &error), ncclSuccess);
  return error;
}

bool ready(ncclComm_t comm) {
  return eventually([&] { return async_error(comm) != ncclInProgress; }) && async_error(comm) == ncclSuccess;
}

ncclResult_t all_reduce(ncclComm_t comm) {
  // NCCL may take the call later, and reads and writes the memory of each rank then.
  static thread_local float value = 0;
  return ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, stream(7));
}

void run(int ranks, const RankBody& body) {
  const ncclUniqueId id = new_id();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      ncclConfig_t config = non_blocking();
      ncclComm_t comm = nullptr;
      EXPECT_EQ(ncclCommInitRankConfig(&comm, ranks, id, rank, &config), ncclInProgress);
      body(comm, rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(NonBlocking, IsAcceleratedWhenItIsReady) {
  FakeDevices devices;
  const Pace pace(200);
  run(3, [](ncclComm_t comm, int) {
    EXPECT_EQ(async_error(comm), ncclInProgress);
    EXPECT_EQ(all_reduce(comm), ncclInvalidArgument) << "NCCL says that it is not ready";
    ASSERT_TRUE(ready(comm));
    EXPECT_TRUE(accelerated(comm)) << explain(comm, Collective::all_reduce, 256);
    EXPECT_EQ(all_reduce(comm), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  });
  EXPECT_TRUE(eventually([] { return FakeDevice::live_allocations() == 0; })) << FakeDevice::live_allocations();
}

TEST(NonBlocking, KeepsTheProgramNoLongerThanNccl) {
  FakeDevices devices;
  const Pace pace(1500);
  const auto begin = Clock::now();
  run(2, [&](ncclComm_t comm, int) {
    EXPECT_LT(Clock::now() - begin, milliseconds(1500));
    ASSERT_TRUE(ready(comm));
    EXPECT_GE(Clock::now() - begin, milliseconds(1500));
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  });
}

TEST(NonBlocking, IsNotReadyBeforeTheRanksHaveMet) {
  FakeDevices devices;
  // The first exchange never ends, so that the ranks give up after a while.
  devices.prepare = [&](FakeDevice& device) { device.stuck = stream(1001); };
  ::setenv("BUSBW_GPU_TIMEOUT", "0.5", 1);
  run(2, [&](ncclComm_t comm, int) {
    ::usleep(150'000);  // NCCL's part takes 20 ms
    EXPECT_EQ(async_error(comm), ncclInProgress);
    // A call that does not ask waits with the rank: both use the same.
    const ncclResult_t result = all_reduce(comm);
    EXPECT_TRUE(result == ncclSuccess || result == ncclInProgress) << result;
    EXPECT_TRUE(contains(explain(comm, Collective::all_reduce, 256), "within 0.5 s"));
    EXPECT_TRUE(ready(comm));
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  });
  ::unsetenv("BUSBW_GPU_TIMEOUT");
}

TEST(NonBlocking, InAGroup) {
  FakeDevices devices;
  const ncclUniqueId id = new_id();
  ncclComm_t comms[2] = {};
  ncclConfig_t config = non_blocking();
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_EQ(ncclCommInitRankConfig(&comms[rank], 2, id, rank, &config), ncclInProgress);
  }
  const ncclResult_t end = ncclGroupEnd();
  EXPECT_TRUE(end == ncclSuccess || end == ncclInProgress);
  for (ncclComm_t comm : comms) ASSERT_TRUE(ready(comm));
  for (ncclComm_t comm : comms) EXPECT_TRUE(accelerated(comm)) << explain(comm, Collective::all_reduce, 256);
  for (ncclComm_t comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

TEST(NonBlocking, ASplitIsKnownWhenItsParentIsReady) {
  FakeDevices devices;
  const Pace pace(200);
  run(2, [](ncclComm_t comm, int rank) {
    ASSERT_TRUE(ready(comm));
    ncclComm_t half = nullptr;
    ASSERT_EQ(ncclCommSplit(comm, 0, rank, &half, nullptr), ncclInProgress);
    ASSERT_TRUE(ready(comm));
    ASSERT_NE(half, nullptr);
    EXPECT_EQ(async_error(half), ncclInProgress) << "its ranks have yet to meet";
    ASSERT_TRUE(ready(half));
    EXPECT_TRUE(accelerated(half)) << explain(half, Collective::all_reduce, 256);
    EXPECT_EQ(ncclCommDestroy(half), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  });
}

TEST(NonBlocking, AnAbortWaitsForNoPeer) {
  FakeDevices devices;
  devices.prepare = [&](FakeDevice& device) { device.stuck = stream(1001); };
  run(2, [&](ncclComm_t comm, int) {
    ::usleep(100'000);
    const auto begin = Clock::now();
    EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
    EXPECT_LT(Clock::now() - begin, milliseconds(500));
  });
}

TEST(NonBlocking, ACallThatNcclTakesLaterKeepsItsPlaceAmongOurs) {
  FakeDevices devices;
  run(2, [](ncclComm_t comm, int) {
    ASSERT_TRUE(ready(comm));
    float values[2] = {};
    EXPECT_EQ(ncclReduce(values, values + 1, 1, ncclFloat32, ncclSum, 0, comm, stream(8)), ncclInProgress);
    ASSERT_TRUE(ready(comm));
    EXPECT_EQ(all_reduce(comm), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  });
}

// Once NCCL has said that it is done, the program may destroy the stream: what orders the next call is there by then.
TEST(NonBlocking, ACallThatNcclTakesLaterIsInTheLineWhenNcclSaysSo) {
  FakeDevices devices;
  std::mutex guard;
  std::vector<FakeDevice*> made;
  devices.prepare = [&](FakeDevice& device) {
    const std::lock_guard lock(guard);
    made.push_back(&device);
  };
  std::latch asked(2);
  run(2, [&](ncclComm_t comm, int rank) {
    ASSERT_TRUE(ready(comm));
    float values[2] = {};
    EXPECT_EQ(ncclReduce(values, values + 1, 1, ncclFloat32, ncclSum, 0, comm, stream(8)), ncclInProgress);
    ASSERT_TRUE(ready(comm));
    asked.arrive_and_wait();
    if (rank == 0) {
      for (FakeDevice* device : made) {
        const std::vector<std::string> notes = device->take_notes();
        EXPECT_EQ(std::count(notes.begin(), notes.end(), "record e1 s8"), 1);
      }
    }
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  });
}

TEST(NonBlocking, AnAbortOfAParentLeavesNobodyToAskAboutIt) {
  FakeDevices devices;
  std::latch both(2);  // an abort is seen by the other rank, which would not be ready then
  run(2, [&](ncclComm_t comm, int rank) {
    EXPECT_TRUE(ready(comm));
    both.arrive_and_wait();
    const Pace pace(30);
    ncclComm_t half = nullptr;
    ASSERT_EQ(ncclCommSplit(comm, 0, rank, &half, nullptr), ncclInProgress);
    ::usleep(static_cast<useconds_t>(rank) * 20'000);
    EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  });
}

// Ranks of one communicator may differ in this, and then NCCL may register a window later on some of them.
TEST(NonBlocking, WindowsAreLeftToNccl) {
  FakeDevices devices;
  const ncclUniqueId id = new_id();
  std::latch both(2), asked(2);
  auto& real = const_cast<RealNccl&>(real_nccl());
  const auto with_windows = [](ncclComm_t, void*, size_t, ncclWindow_t* window, int) {
    return *window = reinterpret_cast<ncclWindow_t>(std::uintptr_t{1}), ncclSuccess;
  };
  const auto before = std::exchange(real.window_register, with_windows);
  const auto body = [&](int rank) {
    ncclConfig_t config = non_blocking();
    config.blocking = rank;
    ncclComm_t comm = nullptr;
    ncclCommInitRankConfig(&comm, 2, id, rank, &config);
    ASSERT_TRUE(ready(comm));
    both.arrive_and_wait();
    const auto begin = Clock::now();
    ncclWindow_t window = nullptr;
    if (rank == 1) {
      EXPECT_EQ(ncclCommWindowRegister(comm, &window, 8, &window, NCCL_WIN_COLL_SYMMETRIC), ncclSuccess);
    }
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(10)) << "the other rank does not come";
    asked.arrive_and_wait();  // who destroys its communicator lets go whoever waits for it
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  };
  ::setenv("BUSBW_GPU_TIMEOUT", "20", 1);
  std::thread other([&] { body(1); });
  body(0);
  other.join();
  ::unsetenv("BUSBW_GPU_TIMEOUT");
  real.window_register = before;
}

// Ranks whose threads have opened a second and a third communicator in different orders.
TEST(NonBlocking, SeveralAtOnceBesideOneThatIsThereAlready) {
  FakeDevices devices;
  const ncclUniqueId ids[] = {new_id(), new_id(), new_id()};
  ::setenv("BUSBW_GPU_TIMEOUT", "20", 1);
  const auto begin = Clock::now();
  std::latch first(2);
  const auto rank = [&](int me) {
    const auto gpu = std::make_shared<FakeDevice>(me);
    const auto make = [&](int which, ncclComm_t& comm) {
      FakeDevices::of_this_rank() = gpu;
      ASSERT_EQ(ncclCommInitRank(&comm, 2, ids[which], me), ncclSuccess) << ncclGetLastError(nullptr);
    };
    ncclComm_t comms[3] = {};
    make(0, comms[0]);
    first.arrive_and_wait();
    std::thread one([&] { make(1 + me, comms[1 + me]); });
    ::usleep(1000);
    std::thread other([&] { make(2 - me, comms[2 - me]); });
    one.join();
    other.join();
    for (ncclComm_t comm : comms) EXPECT_TRUE(accelerated(comm)) << explain(comm, Collective::all_reduce, 256);
    for (ncclComm_t comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  };
  std::thread other([&] { rank(1); });
  rank(0);
  other.join();
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(15)) << "they have waited for each other";
  ::unsetenv("BUSBW_GPU_TIMEOUT");
}

// The program ends while its ranks still meet on threads of ours, as where one of them is late.
[[noreturn]] void end_while_ranks_meet() {
  // Registered before ours, it runs behind it, as the driver's own handler does.
  std::atexit([] {
    FakeDevice::driver_is_gone() = true;
    ::usleep(100'000);
    if (FakeDevice::asked_after_its_end() > 0) ::_exit(3);
  });
  auto* const devices = new FakeDevices;
  static std::atomic<int> asked{0};
  devices->prepare = [](FakeDevice& device) {
    device.stuck = stream(1001);
    ++asked;
  };
  const ncclUniqueId id = new_id();
  ncclComm_t comms[2] = {};
  for (int rank = 0; rank < 2; ++rank) {
    ncclConfig_t config = non_blocking();
    ncclCommInitRankConfig(&comms[rank], 2, id, rank, &config);
  }
  if (!eventually([] { return asked == 2; })) ::_exit(4);
  ::usleep(50'000);
  std::exit(0);
}

TEST(NonBlocking, NothingIsAskedOfTheDriverWhenTheProgramHasEnded) {
  if (std::getenv("BUSBW_TEST_ENDS")) end_while_ranks_meet();
  // In a process that has done nothing yet: exit handlers run in the order of the first uses.
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("BUSBW_TEST_ENDS", "1", 1);
    ::execl("/proc/self/exe", "ends", "--gtest_filter=NonBlocking.NothingIsAskedOfTheDriverWhenTheProgramHasEnded",
            static_cast<char*>(nullptr));
    ::_exit(127);
  }
  EXPECT_EQ(wait_for(child), 0);
}

}  // namespace
}  // namespace busbw::gpu::test

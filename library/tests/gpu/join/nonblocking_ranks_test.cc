// Non-blocking communicators are accelerated too, and keep the program no longer than NCCL's do.
#include <chrono>

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
  const Pace pace(700);
  const auto begin = Clock::now();
  run(2, [&](ncclComm_t comm, int) {
    EXPECT_LT(Clock::now() - begin, milliseconds(500));
    ASSERT_TRUE(ready(comm));
    EXPECT_GE(Clock::now() - begin, milliseconds(700));
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

}  // namespace
}  // namespace busbw::gpu::test

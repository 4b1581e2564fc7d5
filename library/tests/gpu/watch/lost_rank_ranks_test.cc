// A communicator that has lost a rank ends on every other rank with an error that names it, and never hangs.
#include <chrono>
#include <latch>

#include "library/tests/gpu/ranks.h"

namespace busbw::gpu::test {
namespace {

using Clock = std::chrono::steady_clock;

ncclResult_t all_reduce(ncclComm_t comm) {
  static float value = 0;
  return ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, stream(7));
}

ncclResult_t async_error(ncclComm_t comm) {
  ncclResult_t error = ncclSuccess;
  EXPECT_EQ(ncclCommGetAsyncError(comm, &error), ncclSuccess);
  return error;
}

void expect_poisoned(ncclComm_t comm, const std::string& who, const std::string& how) {
  // A call that the lost rank is missing in: those before it may all be done.
  EXPECT_TRUE(eventually([&] { return all_reduce(comm) == ncclRemoteError; }, 2000));
  // The NCCL behind us may notice first, in its own words.
  std::string why;
  const auto named = [&] {
    if (async_error(comm) != ncclRemoteError) return false;
    why = ncclGetLastError(comm);
    return contains(why, who) && contains(why, how);
  };
  EXPECT_TRUE(eventually(named, 2000)) << why;
  // Every later call, ours or NCCL's, in a group or not.
  EXPECT_EQ(all_reduce(comm), ncclRemoteError);
  EXPECT_TRUE(contains(ncclGetLastError(nullptr), who)) << ncclGetLastError(nullptr);
  float value = 0;
  EXPECT_EQ(ncclSend(&value, 1, ncclFloat32, 0, comm, stream(7)), ncclRemoteError);
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(all_reduce(comm), ncclRemoteError);
  EXPECT_EQ(ncclGroupEnd(), ncclRemoteError);
  EXPECT_EQ(ncclCommFinalize(comm), ncclRemoteError);
}

TEST(LostRank, IsNamedByEveryOtherRankWithinSecondsAndDestroyReturns) {
  FakeDevices devices;
  const ncclUniqueId id = new_id();
  std::vector<pid_t> children;
  for (int rank = 0; rank < 3; ++rank) {
    children.push_back(start_process([&, rank] {
      run_rank(id, 3, rank, [](ncclComm_t comm, int me) {
        ASSERT_TRUE(accelerated(comm));
        ASSERT_EQ(all_reduce(comm), ncclSuccess);
        if (me == 2) ::raise(SIGKILL);
        expect_poisoned(comm, "rank 2 (pid ", "ended");
      });
    }));
  }
  const auto begin = Clock::now();
  EXPECT_EQ(wait_for(children[0]), 0);
  EXPECT_EQ(wait_for(children[1]), 0);
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(10));
  EXPECT_EQ(wait_for(children[2]), 128 + SIGKILL);
}

TEST(LostRank, AsRankZeroIsNamedToo) {
  FakeDevices devices;
  const ncclUniqueId id = new_id();
  std::vector<pid_t> children;
  for (int rank = 0; rank < 3; ++rank) {
    children.push_back(start_process([&, rank] {
      run_rank(id, 3, rank, [](ncclComm_t comm, int me) {
        if (me == 0) ::raise(SIGKILL);
        expect_poisoned(comm, "rank 0 (pid ", "ended");
      });
    }));
  }
  EXPECT_EQ(wait_for(children[1]), 0);
  EXPECT_EQ(wait_for(children[2]), 0);
  wait_for(children[0]);
}

TEST(LostRank, EndsTheKernelsThatWaitForItBeforeTheCommunicatorIsDestroyed) {
  FakeDevices devices;
  const ncclUniqueId id = new_id();
  const auto waiting_kernel = [](ncclComm_t comm) {
    FakeDevice& device = my_device();
    const std::uint32_t* word = nullptr;
    device.kernel = [&](const Launch& launch) { word = launch.arguments.abort; };
    device.events_done = false;
    ASSERT_EQ(all_reduce(comm), ncclSuccess);
    std::thread gpu([&device, word] {
      EXPECT_TRUE(eventually([&] { return __atomic_load_n(word, __ATOMIC_ACQUIRE) != 0; }));
      device.note("kernel ended");
      device.events_done = true;
    });
    // The rank that is alive destroys at once: it must wait for its kernel, and that for the news.
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
    gpu.join();
    const auto notes = device.take_notes();
    EXPECT_EQ(notes.back(), "kernel ended");
  };
  const pid_t first = start_process([&] {
    ncclComm_t comm = nullptr;
    ASSERT_EQ(ncclCommInitRank(&comm, 2, id, 0), ncclSuccess);
    waiting_kernel(comm);
  });
  const pid_t second = start_process([&] {
    run_rank(id, 2, 1, [](ncclComm_t, int) {
      ::usleep(100'000);
      ::raise(SIGKILL);
    });
  });
  EXPECT_EQ(wait_for(first), 0);
  wait_for(second);
}

TEST(AbortedRank, TellsTheOthers) {
  FakeDevices devices;
  const ncclUniqueId id = new_id();
  // Who aborts while others still agree on the library ends that: they then know no more than that NCCL failed.
  std::latch all_have_agreed(3);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      ncclComm_t comm = nullptr;
      EXPECT_EQ(ncclCommInitRank(&comm, 3, id, rank), ncclSuccess);
      EXPECT_EQ(all_reduce(comm), ncclSuccess);
      all_have_agreed.arrive_and_wait();
      if (rank != 1) expect_poisoned(comm, "rank 1 (pid ", "ncclCommAbort");
      EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(eventually([] { return FakeDevice::live_allocations() == 0; })) << FakeDevice::live_allocations();
}

// The ranks' kernels wait on their GPUs, which know nothing of each other's processes.
TEST(AbortedRank, EndsTheKernelsOfOtherProcesses) {
  FakeDevices devices;
  const ncclUniqueId id = new_id();
  std::vector<pid_t> children;
  for (int rank = 0; rank < 3; ++rank) {
    children.push_back(start_process([&, rank] {
      ncclComm_t comm = nullptr;
      ASSERT_EQ(ncclCommInitRank(&comm, 3, id, rank), ncclSuccess);
      const std::uint32_t* word = nullptr;
      my_device().kernel = [&](const Launch& launch) { word = launch.arguments.abort; };
      my_device().events_done = false;
      ASSERT_EQ(all_reduce(comm), ncclSuccess);
      if (rank != 1) {
        expect_poisoned(comm, "rank 1 (pid ", "ncclCommAbort");
        EXPECT_TRUE(eventually([&] { return __atomic_load_n(word, __ATOMIC_ACQUIRE) != 0; }, 2000));
      }
      my_device().events_done = rank != 1;
      EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
      EXPECT_TRUE(eventually([&] { return __atomic_load_n(word, __ATOMIC_ACQUIRE) != 0; }));
      my_device().events_done = true;
    }));
  }
  for (const pid_t child : children) EXPECT_EQ(wait_for(child), 0);
}

TEST(AbortedRank, IsGoneWithinHalfASecondWhateverRunsAndItsMemoryOnlyWhenThatHasEnded) {
  FakeDevices devices;
  const ncclUniqueId id = new_id();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      ncclComm_t comm = nullptr;
      ASSERT_EQ(ncclCommInitRank(&comm, 2, id, rank), ncclSuccess);
      my_device().events_done = false;
      ASSERT_EQ(all_reduce(comm), ncclSuccess);
      // As PyTorch's watchdog does: on all of a process's communicators one after the other.
      const auto begin = Clock::now();
      EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
      EXPECT_LT(Clock::now() - begin, std::chrono::milliseconds(600));
      // Kernels may still write there.
      ::usleep(300'000);
      EXPECT_GT(FakeDevice::live_allocations(), 0);
      my_device().events_done = true;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(eventually([] { return FakeDevice::live_allocations() == 0; })) << FakeDevice::live_allocations();
}

TEST(AbortedRank, LeavesItsPeersKernelsTheTimeToEndWithAllTheyNeed) {
  FakeDevices devices;
  const ncclUniqueId id = new_id();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      ncclComm_t comm = nullptr;
      ASSERT_EQ(ncclCommInitRank(&comm, 2, id, rank), ncclSuccess);
      const std::uint32_t* word = nullptr;
      my_device().kernel = [&](const Launch& launch) { word = launch.arguments.abort; };
      ASSERT_EQ(all_reduce(comm), ncclSuccess);
      barrier(comm);
      barrier(comm);
      my_device().events_done = false;
      const auto begin = Clock::now();
      if (rank == 0) {
        EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
        my_device().events_done = true;
        return;
      }
      while (Clock::now() - begin < std::chrono::milliseconds(120)) {
        ASSERT_EQ(__atomic_load_n(word, __ATOMIC_ACQUIRE), 0u) << "no grace";
        ::usleep(2000);
      }
      EXPECT_TRUE(eventually([&] { return __atomic_load_n(word, __ATOMIC_ACQUIRE) != 0; }, 1000));
      my_device().events_done = true;
      EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(FailedLaunch, IsTheCallersErrorAndTheOthersLearnIt) {
  FakeDevices devices;
  run_threads(3, [](ncclComm_t comm, int rank) {
    if (rank == 2) {
      my_device().refuse_launch = true;
      EXPECT_EQ(all_reduce(comm), ncclUnhandledCudaError);
      EXPECT_TRUE(contains(ncclGetLastError(comm), "launches nothing")) << ncclGetLastError(comm);
      // It is out of step with its peers.
      my_device().refuse_launch = false;
      EXPECT_EQ(all_reduce(comm), ncclUnhandledCudaError);
    } else {
      expect_poisoned(comm, "rank 2 (pid ", "launches nothing");
    }
  });
}

TEST(FailedLaunch, DuringACapturePoisonsNothing) {
  FakeDevices devices;
  run_threads(2, [](ncclComm_t comm, int) {
    my_device().captures = {{stream(7), 5}};
    my_device().refuse_launch = true;
    EXPECT_EQ(all_reduce(comm), ncclUnhandledCudaError);
    my_device().refuse_launch = false;
    EXPECT_EQ(all_reduce(comm), ncclSuccess);
    barrier(comm);
  });
}

TEST(RevokedCommunicator, RefusesCollectivesAndCanStillBeShrunkOrSplit) {
  FakeDevices devices;
  run_threads(2, [](ncclComm_t comm, int rank) {
    EXPECT_EQ(ncclCommRevoke(comm, 0), ncclSuccess);
    EXPECT_EQ(all_reduce(comm), ncclInvalidUsage);
    ncclComm_t next = nullptr;
    ASSERT_EQ(ncclCommSplit(comm, 0, rank, &next, nullptr), ncclSuccess) << ncclGetLastError(nullptr);
    EXPECT_EQ(all_reduce(next), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(next), ncclSuccess);
  });
}

}  // namespace
}  // namespace busbw::gpu::test

// Ranks decide together whether a communicator is accelerated, and reach each other's memory if it is.
#include "library/gpu/join/ballots.h"
#include "library/tests/gpu/in_the_reducer.h"
#include "library/tests/gpu/ranks.h"

namespace busbw::gpu::test {
namespace {

// Each rank writes its number into every peer's scratch, then finds everyone's in its own.
void check_reach(ncclComm_t comm, int rank, int ranks) {
  float value = 1;
  ASSERT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, stream(7)), ncclSuccess);
  ASSERT_FALSE(my_device().launches.empty());
  const KernelArguments arguments = my_device().launches.back().arguments;
  EXPECT_EQ(arguments.rank, rank);
  EXPECT_EQ(arguments.ranks, ranks);
  EXPECT_EQ(*arguments.abort, 0u);
  for (int peer = 0; peer < ranks; ++peer) arguments.scratch[peer][rank] = static_cast<unsigned char>(rank + 1);
  barrier(comm);
  barrier(comm);
  for (int peer = 0; peer < ranks; ++peer) EXPECT_EQ(arguments.scratch[rank][peer], peer + 1);
  barrier(comm);
  barrier(comm);
}

TEST(NotAccelerated, WhereAVariableOfNcclForbidsIt) {
  FakeDevices devices;
  ::setenv("NCCL_P2P_DISABLE", "1", 1);
  run_threads(2, [](ncclComm_t comm, int) {
    EXPECT_TRUE(contains(explain(comm, Collective::all_reduce, 256), "NCCL_P2P_DISABLE is 1"));
  });
  ::unsetenv("NCCL_P2P_DISABLE");
}

TEST(Accelerated, ThreadsReachEachOthersMemory) {
  FakeDevices devices;
  run_threads(4, [](ncclComm_t comm, int rank) { check_reach(comm, rank, 4); });
}

TEST(Accelerated, ProcessesReachEachOthersMemory) {
  FakeDevices devices;
  run_processes(3, [](ncclComm_t comm, int rank) { check_reach(comm, rank, 3); });
}

TEST(Accelerated, ScratchIsPreparedForEveryProtocol) {
  FakeDevices devices;
  run_threads(2, [](ncclComm_t comm, int) {
    ASSERT_TRUE(accelerated(comm));
    const Layout layout = Layout::of(2);
    bool found = false;
    for (const FakeDevice::Fill& fill : my_device().fills) {
      found |= fill.word == 0xFFFAFFFA && fill.bytes == layout.simple_start - layout.sentinel_start;
    }
    EXPECT_TRUE(found);
  });
}

TEST(Accelerated, CommunicatorsOfOneThreadAreMadeTogether) {
  FakeDevices devices;
  ncclComm_t comms[3] = {};
  ASSERT_EQ(ncclCommInitAll(comms, 3, nullptr), ncclSuccess) << ncclGetLastError(nullptr);
  for (ncclComm_t comm : comms) EXPECT_TRUE(accelerated(comm));
  for (ncclComm_t comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

TEST(Accelerated, InAGroupAfterItsEnd) {
  FakeDevices devices;
  const ncclUniqueId id = new_id();
  ncclComm_t comms[2] = {};
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int rank = 0; rank < 2; ++rank) ASSERT_EQ(ncclCommInitRank(&comms[rank], 2, id, rank), ncclSuccess);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
  for (ncclComm_t comm : comms) EXPECT_TRUE(accelerated(comm)) << explain(comm, Collective::all_reduce, 256);
  for (ncclComm_t comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

TEST(Accelerated, ASplitIsToo) {
  FakeDevices devices;
  run_threads(4, [](ncclComm_t comm, int rank) {
    ncclComm_t half = nullptr;
    ASSERT_EQ(ncclCommSplit(comm, rank % 2, rank, &half, nullptr), ncclSuccess) << ncclGetLastError(comm);
    check_reach(half, rank / 2, 2);
    EXPECT_EQ(ncclCommDestroy(half), ncclSuccess);
  });
}

TEST(Accelerated, MemoryIsGivenBackAfterTheLastRankHasLeft) {
  FakeDevices devices;
  run_threads(3, [](ncclComm_t comm, int) { ASSERT_TRUE(accelerated(comm)); });
  EXPECT_TRUE(eventually([] { return FakeDevice::live_allocations() == 0; })) << FakeDevice::live_allocations();
}

TEST(NotAccelerated, WhatOneRankCannotNoRankDoesAndAllKnowWhy) {
  FakeDevices devices;
  std::atomic<int> opened{0};
  devices.prepare = [&](FakeDevice& device) {
    device.refuse_memory = false, device.refusal = opened++ == 1 ? "it is too old" : "";
  };
  run_threads(3, [](ncclComm_t comm, int) {
    const std::string why = explain(comm, Collective::all_reduce, 256);
    EXPECT_TRUE(contains(why, "nccl: rank ") && contains(why, "it is too old")) << why;
    float value = 1;
    EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr), ncclSuccess);
    EXPECT_EQ(value, 3);
  });
  EXPECT_TRUE(eventually([] { return FakeDevice::live_allocations() == 0; })) << FakeDevice::live_allocations();
}

TEST(NotAccelerated, WhereAPeerCannotBeReached) {
  FakeDevices devices;
  devices.prepare = [&](FakeDevice& device) { device.refuse_peers = true; };
  run_processes(2, [](ncclComm_t comm, int) {
    const std::string why = explain(comm, Collective::all_reduce, 256);
    EXPECT_TRUE(contains(why, "reaches no peer")) << why;
    float value = 2;
    EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr), ncclSuccess);
    EXPECT_EQ(value, 4);
  });
}

TEST(NotAccelerated, WhereRanksWouldDecideDifferently) {
  FakeDevices devices;
  const ncclUniqueId id = new_id();
  const auto rank = [&](int rank) {
    return start_process([&, rank] {
      ::setenv("BUSBW_ALGORITHM", rank == 0 ? "two_shot/ll" : "one_shot/ll", 1);
      run_rank(id, 2, rank, [](ncclComm_t comm, int) {
        const std::string why = explain(comm, Collective::all_reduce, 256);
        EXPECT_TRUE(contains(why, "rank 1 has another BUSBW_ALGORITHM")) << why;
      });
    });
  };
  const pid_t first = rank(0);
  const pid_t second = rank(1);
  EXPECT_EQ(wait_for(first), 0);
  EXPECT_EQ(wait_for(second), 0);
}

class StagedCopies : public ::testing::Test {
 protected:
  StagedCopies() { ::setenv("BUSBW_ALGORITHM", "staged/copy", 1); }
  ~StagedCopies() override { ::unsetenv("BUSBW_ALGORITHM"); }

  static std::string decision(ncclComm_t comm) { return explain(comm, Collective::all_reduce, 8 << 20); }
  FakeDevices devices_;
};

TEST_F(StagedCopies, AreTakenByAProcessForEachRank) {
  run_processes(2,
                [](ncclComm_t comm, int) { EXPECT_TRUE(contains(decision(comm), "staged/copy")) << decision(comm); });
}

TEST_F(StagedCopies, AreNotTakenByThreads) {
  run_threads(2, [](ncclComm_t comm, int) {
    EXPECT_TRUE(contains(decision(comm), "a process for each rank")) << decision(comm);
  });
}

TEST_F(StagedCopies, AreTakenByNoRankWhereOneHasFewQueues) {
  const ncclUniqueId id = new_id();
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.push_back(start_process([&, rank] {
      if (rank == 1) ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "4", 1);
      run_rank(id, 2, rank, [](ncclComm_t comm, int) {
        EXPECT_TRUE(contains(decision(comm), "CUDA_DEVICE_MAX_CONNECTIONS")) << decision(comm);
      });
    }));
  }
  for (const pid_t rank : ranks) EXPECT_EQ(wait_for(rank), 0);
}

// A bucket of DDP, which every rank has called for when it is reduced; then small calls up to the first count of votes.
class Gradients : public ::testing::Test {
 protected:
  Gradients() { ::setenv("BUSBW_PREFER", "overlap", 1); }
  ~Gradients() override { ::unsetenv("BUSBW_PREFER"); }

  static constexpr std::size_t bucket = 6 << 20;  // float32
  static std::string decision(ncclComm_t comm) { return explain(comm, Collective::all_reduce, bucket); }

  static void reduce_a_bucket(ncclComm_t comm) {
    std::vector<float> gradients(bucket, 1.0f);
    ASSERT_EQ(ncclAllReduce(gradients.data(), gradients.data(), bucket, ncclFloat32, ncclSum, comm, stream(7)),
              ncclSuccess)
        << ncclGetLastError(comm);
  }
  static void come_to_the_count(ncclComm_t comm) {
    for (std::uint64_t call = 1; call < Ballots::first_count; ++call) {
      float value = 1;
      EXPECT_FALSE(contains(decision(comm), "staged")) << call;
      ASSERT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, stream(7)), ncclSuccess);
    }
  }
  FakeDevices devices_;
};

TEST_F(Gradients, GoByStagedCopiesOnceAllRanksHaveFoundThem) {
  run_processes(4, [](ncclComm_t comm, int) {
    in_the_reducer([&] { reduce_a_bucket(comm); });
    come_to_the_count(comm);
    EXPECT_TRUE(contains(decision(comm), "staged/copy")) << decision(comm);
  });
}

TEST_F(Gradients, AreNotWhatOneRankCallsFromElsewhere) {
  run_processes(2, [](ncclComm_t comm, int rank) {
    if (rank == 0) {
      in_the_reducer([&] { reduce_a_bucket(comm); });
    } else {
      reduce_a_bucket(comm);
    }
    come_to_the_count(comm);
    EXPECT_TRUE(contains(decision(comm), "nccl:")) << decision(comm);
  });
}

// As FSDP does it, in a stream of high priority.
TEST_F(Gradients, OfFsdpAreKnownByThePriorityOfTheirStreams) {
  for (const int usual : {-1, 1}) {  // the rank whose stream is a usual one
    run_processes(2, [usual](ncclComm_t comm, int rank) {
      if (rank != usual) my_device().urgent.insert(stream(7));
      std::vector<float> all(2 * bucket);
      ASSERT_EQ(
          ncclAllGather(all.data() + std::size_t(rank) * bucket, all.data(), bucket, ncclFloat32, comm, stream(7)),
          ncclSuccess)
          << ncclGetLastError(comm);
      come_to_the_count(comm);
      const std::string found = explain(comm, Collective::all_gather, bucket);
      EXPECT_EQ(contains(found, "staged/copy"), usual == -1) << found;
    });
  }
}

TEST_F(Gradients, AreNotAskedForOfThreads) {
  run_threads(2, [](ncclComm_t comm, int) {
    in_the_reducer([&] { reduce_a_bucket(comm); });
    come_to_the_count(comm);
    EXPECT_TRUE(contains(decision(comm), "nccl:")) << decision(comm);
  });
}

TEST(NotAccelerated, WithoutAGpu) {
  FakeDevices devices;
  devices.none = "there is no NVIDIA driver";
  run_threads(2, [](ncclComm_t comm, int) {
    EXPECT_EQ(explain(comm, Collective::all_reduce, 256), "nccl: there is no NVIDIA driver");
  });
}

// The streams of a rank's two exchanges.
constexpr std::uintptr_t first_exchange = 1001;
constexpr std::uintptr_t second_exchange = 1002;

TEST(LateRank, ThatGivesUpOnTheFirstExchangeTellsTheOthersInTheSecond) {
  FakeDevices devices;
  ::setenv("BUSBW_GPU_TIMEOUT", "0.2", 1);
  std::atomic<int> opened{0};
  devices.prepare = [&](FakeDevice& device) { device.stuck = stream(opened++ == 0 ? first_exchange : 0); };
  run_threads(3, [](ncclComm_t comm, int) {
    const std::string why = explain(comm, Collective::all_reduce, 256);
    // The late rank knows that its time was up, the others what it said or that it did not come.
    EXPECT_TRUE(contains(why, "nccl: ")) << why;
    const bool late = my_device().stuck != stream(0);
    EXPECT_TRUE(!late || contains(why, "within 0.2 s (BUSBW_GPU_TIMEOUT)")) << why;
    float value = 1;
    EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr), ncclSuccess);
    EXPECT_EQ(value, 3);
  });
  ::unsetenv("BUSBW_GPU_TIMEOUT");
}

TEST(LateRank, ThatDoesNotLearnTheDecisionGuessesNothing) {
  FakeDevices devices;
  ::setenv("BUSBW_GPU_TIMEOUT", "0.2", 1);
  std::atomic<int> opened{0};
  devices.prepare = [&](FakeDevice& device) { device.stuck = stream(opened++ == 0 ? second_exchange : 0); };
  std::atomic<int> in_doubt{0};
  run_threads(2, [&](ncclComm_t comm, int) {
    if (my_device().stuck == stream(0)) {
      // May have noticed already that its peer is not with it.
      return;
    }
    ++in_doubt;
    float value = 1;
    EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, nullptr), ncclRemoteError);
    EXPECT_TRUE(contains(ncclGetLastError(comm), "did not learn whether all ranks use")) << ncclGetLastError(comm);
  });
  EXPECT_EQ(in_doubt, 1);
  ::unsetenv("BUSBW_GPU_TIMEOUT");
}

}  // namespace
}  // namespace busbw::gpu::test

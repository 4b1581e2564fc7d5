// What goes wrong between ranks ends in an error that names the rank, on every other rank, within seconds.
#include "library/tests/cpu/ended_ranks.h"
namespace busbw::cpu::test {
namespace {

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

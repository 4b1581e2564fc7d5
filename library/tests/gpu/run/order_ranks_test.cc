// Calls run in NCCL's order: one after the other on a communicator, a group's at its end, ours and NCCL's alike.
#include "library/tests/gpu/ranks.h"

namespace busbw::gpu::test {
namespace {

using Notes = std::vector<std::string>;

// Two communicators of this thread, each with a GPU of its own.
class TwoRanks : public ::testing::Test {
 protected:
  TwoRanks() {
    FakeDevices::opened_here().clear();
    EXPECT_EQ(ncclCommInitAll(comms, 2, nullptr), ncclSuccess) << ncclGetLastError(nullptr);
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_TRUE(accelerated(comms[rank])) << explain(comms[rank], Collective::all_reduce, 256);
      device(rank).take_notes();
    }
  }
  ~TwoRanks() override {
    for (ncclComm_t comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  }
  FakeDevice& device(int rank) { return *FakeDevices::opened_here().at(std::size_t(rank)); }
  ncclResult_t all_reduce(int rank, std::uintptr_t on, std::size_t count = 4) {
    return ncclAllReduce(values, values, count, ncclFloat32, ncclSum, comms[rank], stream(on));
  }
  // Something that we never take, on both ranks.
  void reduce_by_nccl(std::uintptr_t on) {
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    for (int rank = 0; rank < 2; ++rank) {
      ASSERT_EQ(ncclReduce(values, results[rank], 4, ncclFloat32, ncclSum, 0, comms[rank], stream(on)), ncclSuccess);
    }
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
  }

  FakeDevices devices;
  ncclComm_t comms[2] = {};
  float values[4] = {1, 2, 3, 4};
  float results[2][4] = {};
};

using Order = TwoRanks;

TEST_F(Order, OnOneStreamNothingWaits) {
  ASSERT_EQ(all_reduce(0, 7), ncclSuccess);
  ASSERT_EQ(all_reduce(0, 7), ncclSuccess);
  EXPECT_EQ(device(0).take_notes(), (Notes{"launch s7", "record e1 s7", "launch s7", "record e1 s7"}));
}

TEST_F(Order, AnotherStreamWaitsForTheCallBefore) {
  ASSERT_EQ(all_reduce(0, 7), ncclSuccess);
  ASSERT_EQ(all_reduce(0, 8), ncclSuccess);
  EXPECT_EQ(device(0).take_notes(), (Notes{"launch s7", "record e1 s7", "wait s8 e1", "launch s8", "record e1 s8"}));
}

TEST_F(Order, NcclsCallsAreInTheSameLine) {
  ASSERT_EQ(all_reduce(0, 7), ncclSuccess);
  reduce_by_nccl(8);
  ASSERT_EQ(all_reduce(0, 9), ncclSuccess);
  EXPECT_EQ(device(0).take_notes(), (Notes{"launch s7", "record e1 s7", "wait s8 e1", "record e1 s8", "wait s9 e1",
                                           "launch s9", "record e1 s9"}));
  EXPECT_EQ(results[0][3], 8);
}

TEST_F(Order, TheLegacyStreamHasTwoNamesAndThePerThreadStreamIsManyStreams) {
  ASSERT_EQ(all_reduce(0, 0), ncclSuccess);
  ASSERT_EQ(all_reduce(0, 1), ncclSuccess);
  ASSERT_EQ(all_reduce(0, 2), ncclSuccess);
  ASSERT_EQ(all_reduce(0, 2), ncclSuccess);
  EXPECT_EQ(device(0).take_notes(), (Notes{"launch s0", "record e1 s0", "launch s1", "record e1 s1", "wait s2 e1",
                                           "launch s2", "record e1 s2", "wait s2 e1", "launch s2", "record e1 s2"}));
}

TEST_F(Order, ACaptureWaitsOnlyForItself) {
  device(0).captures = {{stream(8), 100}, {stream(9), 100}, {stream(10), 200}};
  ASSERT_EQ(all_reduce(0, 7), ncclSuccess);   // eager
  ASSERT_EQ(all_reduce(0, 8), ncclSuccess);   // captured by graph 100: an eager event must not come in
  ASSERT_EQ(all_reduce(0, 9), ncclSuccess);   // the same graph
  ASSERT_EQ(all_reduce(0, 10), ncclSuccess);  // another graph
  ASSERT_EQ(all_reduce(0, 11), ncclSuccess);  // eager: a captured event must not come out
  EXPECT_EQ(device(0).take_notes(),
            (Notes{"launch s7", "record e1 s7", "launch s8", "record e2 s8", "wait s9 e2", "launch s9", "record e2 s9",
                   "launch s10", "record e2 s10", "wait s11 e1", "launch s11", "record e1 s11"}));
}

using GroupOfCalls = TwoRanks;

TEST_F(GroupOfCalls, StartsAtItsEndOnEveryGpu) {
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int rank = 0; rank < 2; ++rank) ASSERT_EQ(all_reduce(rank, 7), ncclSuccess);
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(device(rank).take_notes(), Notes{});
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(device(rank).take_notes(), (Notes{"launch s7", "record e1 s7"}));
}

TEST_F(GroupOfCalls, EndsWithTheOutermost) {
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  ASSERT_EQ(all_reduce(0, 7), ncclSuccess);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(device(0).take_notes(), Notes{});
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(device(0).take_notes(), (Notes{"launch s7", "record e1 s7"}));
}

TEST_F(GroupOfCalls, KeepsTheOrderOfSeveralOnOneCommunicator) {
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (const std::size_t count : {3, 1, 2}) ASSERT_EQ(all_reduce(0, 7, count), ncclSuccess);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  ASSERT_EQ(device(0).launches.size(), 3u);
  EXPECT_EQ(device(0).launches[0].arguments.count, 3u);
  EXPECT_EQ(device(0).launches[1].arguments.count, 1u);
  EXPECT_EQ(device(0).launches[2].arguments.count, 2u);
}

TEST_F(GroupOfCalls, StartsOursBeforeTheMessagesThatNcclTakes) {
  float sent = 5;
  float received = 0;
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  ASSERT_EQ(ncclSend(&sent, 1, ncclFloat32, 1, comms[0], stream(8)), ncclSuccess);
  ASSERT_EQ(ncclRecv(&received, 1, ncclFloat32, 0, comms[1], stream(8)), ncclSuccess);
  for (int rank = 0; rank < 2; ++rank) ASSERT_EQ(all_reduce(rank, 7), ncclSuccess);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
  EXPECT_EQ(device(0).take_notes(), (Notes{"launch s7", "record e1 s7", "wait s8 e1", "record e1 s8"}));
  EXPECT_EQ(received, 5);
}

TEST_F(GroupOfCalls, StartsNothingOfOursWhereNcclRefusesACall) {
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  ASSERT_EQ(all_reduce(0, 7), ncclSuccess);
  EXPECT_EQ(ncclSend(values, 1, ncclFloat32, 99, comms[0], stream(7)), ncclInvalidArgument);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
  EXPECT_EQ(device(0).take_notes(), Notes{});
  // The next one is a new group.
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  ASSERT_EQ(all_reduce(0, 7), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(device(0).take_notes(), (Notes{"launch s7", "record e1 s7"}));
}

TEST_F(GroupOfCalls, OneEndTooManyIsRefusedByNccl) { EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage); }

using Decision = TwoRanks;

TEST_F(Decision, WhatWeDoNotTakeGoesToNcclWithTheReason) {
  EXPECT_TRUE(contains(explain(comms[0], Collective::all_reduce, 0), "nccl: "));
  EXPECT_TRUE(contains(explain(comms[0], Collective::all_reduce, 4, ncclFloat32, ncclRedOp_t(99)), "nccl: "));
  EXPECT_TRUE(contains(explain(comms[0], Collective::all_reduce, 4, ncclDataType_t(77)), "nccl: "));
  EXPECT_FALSE(contains(explain(comms[0], Collective::all_gather, 4), "nccl: "));
}

TEST_F(Decision, ArgumentsThatNcclRefusesAreRefusedByNccl) {
  EXPECT_EQ(ncclBroadcast(values, values, 4, ncclFloat32, 2, comms[0], stream(7)), ncclInvalidArgument);
  EXPECT_EQ(ncclAllReduce(values, values, 4, ncclDataType_t(77), ncclSum, comms[0], stream(7)), ncclInvalidArgument);
  EXPECT_EQ(ncclAllReduce(values, values, 4, ncclFloat32, ncclSum, nullptr, stream(7)), ncclInvalidArgument);
  EXPECT_EQ(device(0).launches.size(), 0u);
}

TEST_F(Decision, DoesNotDependOnWhatMayDifferBetweenRanks) {
  // Null where NCCL wants a buffer, another alignment, in place or not, another stream: the kernel is the same.
  ASSERT_EQ(ncclAllReduce(values, values, 3, ncclFloat32, ncclSum, comms[0], stream(7)), ncclSuccess);
  ASSERT_EQ(ncclAllReduce(values, results[0], 3, ncclFloat32, ncclSum, comms[0], stream(8)), ncclSuccess);
  ASSERT_EQ(ncclAllReduce(values + 1, results[0], 3, ncclFloat32, ncclSum, comms[0], stream(8)), ncclSuccess);
  ASSERT_EQ(ncclAllReduce(nullptr, results[0], 3, ncclFloat32, ncclSum, comms[0], stream(8)), ncclSuccess);
  ASSERT_EQ(device(0).launches.size(), 4u);
  for (const Launch& launch : device(0).launches) {
    EXPECT_EQ(launch.kind, device(0).launches[0].kind);
    EXPECT_EQ(launch.channels, device(0).launches[0].channels);
    EXPECT_EQ(launch.threads, device(0).launches[0].threads);
  }
}

TEST_F(Decision, KernelsThatMoveGetBytesAndThoseThatReduceElements) {
  ASSERT_EQ(ncclAllGather(values, values, 3, ncclFloat32, comms[0], stream(7)), ncclSuccess);
  ASSERT_EQ(ncclReduceScatter(values, values, 3, ncclFloat32, ncclMax, comms[0], stream(7)), ncclSuccess);
  ASSERT_EQ(ncclBcast(values, 3, ncclFloat64, 1, comms[0], stream(7)), ncclSuccess);
  ASSERT_EQ(device(0).launches.size(), 3u);
  EXPECT_EQ(device(0).launches[0].arguments.count, 12u);
  EXPECT_EQ(device(0).launches[1].arguments.count, 3u);
  EXPECT_EQ(device(0).launches[1].arguments.op, op_max);
  EXPECT_EQ(device(0).launches[2].arguments.count, 24u);
  EXPECT_EQ(device(0).launches[2].arguments.root, 1);
}

}  // namespace
}  // namespace busbw::gpu::test

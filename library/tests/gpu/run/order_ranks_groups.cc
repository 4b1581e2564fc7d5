// Part of order_ranks_test: calls of a group start at its end, on every GPU, in one order on all ranks.
#include "library/tests/gpu/run/two_ranks.h"
namespace busbw::gpu::test {
namespace {

using GroupOfCalls = TwoRanks;

TEST_F(GroupOfCalls, GoesOnWhereAQuestionIsRefused) {
  auto& real = const_cast<RealNccl&>(real_nccl());
  // As NCCL, whose group goes on.
  const auto by_nccl = std::exchange(real.get_async_error,
                                     [](ncclComm_t, ncclResult_t*) -> ncclResult_t { return ncclInvalidArgument; });
  ncclResult_t error = ncclSuccess;
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  ASSERT_EQ(all_reduce(0, 7), ncclSuccess);
  EXPECT_EQ(ncclCommGetAsyncError(nullptr, &error), ncclInvalidArgument);
  real.get_async_error = by_nccl;
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(device(0).take_notes(), (Notes{"launch s7", "record e1 s7"}));
}

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

TEST_F(GroupOfCalls, JoinsItsStreams) {
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (const std::uintptr_t on : {7, 8, 9, 8}) ASSERT_EQ(all_reduce(0, on), ncclSuccess);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  // All calls on the first stream, behind what is in any of them; later work in any of them behind all calls.
  EXPECT_EQ(device(0).take_notes(),
            (Notes{"record e2 s8", "wait s7 e2", "record e2 s9", "wait s7 e2", "launch s7", "launch s7", "launch s7",
                   "launch s7", "record e1 s7", "wait s8 e1", "wait s9 e1"}));
}

TEST_F(GroupOfCalls, JoinsTheStreamsOfEachCommunicatorForItself) {
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  ASSERT_EQ(all_reduce(0, 7), ncclSuccess);
  ASSERT_EQ(all_reduce(1, 8), ncclSuccess);
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  ASSERT_EQ(all_reduce(0, 9), ncclSuccess);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(device(0).take_notes(),
            (Notes{"record e2 s9", "wait s7 e2", "launch s7", "launch s7", "record e1 s7", "wait s9 e1"}));
  EXPECT_EQ(device(1).take_notes(), (Notes{"launch s8", "record e1 s8"}));
}

TEST_F(GroupOfCalls, JoinsItsStreamsInACaptureToo) {
  device(0).captures = {{stream(8), 100}, {stream(9), 100}};
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (const std::uintptr_t on : {8, 9}) ASSERT_EQ(all_reduce(0, on), ncclSuccess);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(device(0).take_notes(), (Notes{"wait outside s8 e1", "record e2 s9", "wait s8 e2", "launch s8", "launch s8",
                                           "record e5 s8", "record outside e1 s8", "wait s9 e5"}));
}

TEST_F(GroupOfCalls, StreamsOfWhichOnlySomeAreCapturedAreRefusedAndNothingStarts) {
  device(0).captures = {{stream(8), 100}};
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (const std::uintptr_t on : {8, 9}) ASSERT_EQ(all_reduce(0, on), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  EXPECT_TRUE(contains(ncclGetLastError(comms[0]), "captured"));
  EXPECT_EQ(device(0).take_notes(), Notes{});
  ASSERT_EQ(all_reduce(0, 9), ncclSuccess) << "the mistake must not poison the communicator";
}

TEST_F(GroupOfCalls, NcclsPartIsJoinedWithTheStreamsOfOurs) {
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_EQ(all_reduce(rank, 7), ncclSuccess);
    ASSERT_EQ(ncclReduce(values, results[rank], 4, ncclFloat32, ncclSum, 0, comms[rank], stream(8)), ncclSuccess);
    ASSERT_EQ(all_reduce(rank, 9), ncclSuccess);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
  EXPECT_EQ(device(0).take_notes(),
            (Notes{"record e2 s8", "wait s7 e2", "record e2 s9", "wait s7 e2", "launch s7", "launch s7", "record e1 s7",
                   "wait s8 e1", "wait s9 e1",                                   // NCCL's part comes behind ours ...
                   "wait s8 e1", "record e1 s8", "wait s7 e1", "wait s9 e1"}));  // ... and before what follows anywhere
}

// Two communicators of two ranks each, the GPUs shared by a stream: all ranks must start them in one order, also where
// their threads have called them in different ones.
TEST_F(GroupOfCalls, StartsTheCommunicatorsInOneOrderOnAllRanks) {
  ncclComm_t more[2] = {};
  ASSERT_EQ(ncclCommInitAll(more, 2, nullptr), ncclSuccess);
  std::vector<ncclComm_t> started;
  for (std::size_t at = 0; at < 4; ++at) {
    FakeDevices::opened_here().at(at)->kernel = [&, at](const Launch&) {
      started.push_back(at < 2 ? comms[at] : more[at - 2]);
    };
  }
  const auto reduce = [&](ncclComm_t comm) {
    ASSERT_EQ(ncclAllReduce(values, values, 4, ncclFloat32, ncclSum, comm, stream(7)), ncclSuccess);
  };
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  reduce(comms[0]);
  reduce(more[0]);
  reduce(more[1]);
  reduce(comms[1]);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  ASSERT_EQ(started.size(), 4u);
  const auto at = [&](ncclComm_t comm) { return std::find(started.begin(), started.end(), comm) - started.begin(); };
  EXPECT_EQ(at(comms[0]) < at(more[0]), at(comms[1]) < at(more[1]));
  for (ncclComm_t comm : more) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

TEST_F(GroupOfCalls, ASimulatedEndStartsNothingAndClosesTheGroup) {
  for (const bool nested : {false, true}) {
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    if (nested) {
      ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    }
    ASSERT_EQ(all_reduce(0, 7), ncclSuccess);
    if (nested) {
      ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
    }
    ASSERT_EQ(ncclGroupSimulateEnd(nullptr), ncclSuccess);
    EXPECT_EQ(device(0).take_notes(), Notes{});
    ASSERT_EQ(all_reduce(0, 7), ncclSuccess);
    EXPECT_EQ(device(0).take_notes(), (Notes{"launch s7", "record e1 s7"})) << "the group is closed";
  }
  EXPECT_EQ(ncclGroupSimulateEnd(nullptr), ncclInvalidUsage) << "one end too many";
}

// What NCCL was asked for in a simulated group, which it takes the time of.
int handed_to_nccl = 0;

TEST_F(GroupOfCalls, ASimulatedEndLetsNcclEstimateOurCallsToo) {
  auto& real = const_cast<RealNccl&>(real_nccl());
  const auto all_reduce_by_nccl = real.all_reduce;
  handed_to_nccl = 0;
  real.all_reduce = [](const void*, void*, size_t count, ncclDataType_t, ncclRedOp_t, ncclComm_t, ncclStream_t) {
    handed_to_nccl += int(count);
    return ncclSuccess;
  };
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (const std::size_t count : {1, 3}) ASSERT_EQ(all_reduce(0, 7, count), ncclSuccess);
  EXPECT_EQ(ncclGroupSimulateEnd(nullptr), ncclSuccess);
  real.all_reduce = all_reduce_by_nccl;
  EXPECT_EQ(handed_to_nccl, 4);
}

TEST_F(GroupOfCalls, ASimulatedEndMakesTheCommunicatorsOfItsGroup) {
  ncclComm_t more[2] = {};
  const ncclUniqueId id = new_id();
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int rank = 0; rank < 2; ++rank) ASSERT_EQ(ncclCommInitRank(&more[rank], 2, id, rank), ncclSuccess);
  ASSERT_EQ(ncclGroupSimulateEnd(nullptr), ncclSuccess);
  for (ncclComm_t comm : more) {
    ASSERT_TRUE(comm);
    EXPECT_TRUE(accelerated(comm));
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  }
}

TEST_F(GroupOfCalls, StartsOursBeforeTheMessagesThatNcclTakes) {
  float sent = 5;
  float received = 0;
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  ASSERT_EQ(ncclSend(&sent, 1, ncclFloat32, 1, comms[0], stream(8)), ncclSuccess);
  ASSERT_EQ(ncclRecv(&received, 1, ncclFloat32, 0, comms[1], stream(8)), ncclSuccess);
  for (int rank = 0; rank < 2; ++rank) ASSERT_EQ(all_reduce(rank, 7), ncclSuccess);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
  // On stream 8, which the group has used first.
  EXPECT_EQ(device(0).take_notes(), (Notes{"record e2 s7", "wait s8 e2", "launch s8", "record e1 s8", "wait s7 e1",
                                           "record e1 s8", "wait s7 e1"}));
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

}  // namespace
}  // namespace busbw::gpu::test

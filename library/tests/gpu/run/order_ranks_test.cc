// Calls run in NCCL's order: one after the other on a communicator, a group's at its end, ours and NCCL's alike.
#include "library/tests/gpu/run/two_ranks.h"
namespace busbw::gpu::test {
namespace {

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

TEST_F(Order, AStreamThatHasTheHandleOfADestroyedOneWaits) {
  ASSERT_EQ(all_reduce(0, 7), ncclSuccess);
  device(0).made_again[stream(7)] = 1;
  ASSERT_EQ(all_reduce(0, 7), ncclSuccess);
  ASSERT_EQ(all_reduce(0, 7), ncclSuccess);
  EXPECT_EQ(device(0).take_notes(), (Notes{"launch s7", "record e1 s7", "wait s7 e1", "launch s7", "record e1 s7",
                                           "launch s7", "record e1 s7"}));
}

TEST_F(Order, WhereTheDriverDoesNotTellStreamsApartEveryCallWaits) {
  device(0).tells_identities = false;
  ASSERT_EQ(all_reduce(0, 7), ncclSuccess);
  ASSERT_EQ(all_reduce(0, 7), ncclSuccess);
  EXPECT_EQ(device(0).take_notes(), (Notes{"launch s7", "record e1 s7", "wait s7 e1", "launch s7", "record e1 s7"}));
}

TEST_F(Order, TheLegacyStreamHasTwoNamesAndThePerThreadStreamIsOneForEachThread) {
  ASSERT_EQ(all_reduce(0, 0), ncclSuccess);
  ASSERT_EQ(all_reduce(0, 1), ncclSuccess);
  ASSERT_EQ(all_reduce(0, 2), ncclSuccess);
  ASSERT_EQ(all_reduce(0, 2), ncclSuccess);
  std::thread([&] { ASSERT_EQ(all_reduce(0, 2), ncclSuccess); }).join();
  EXPECT_EQ(device(0).take_notes(),
            (Notes{"launch s0", "record e1 s0", "launch s1", "record e1 s1", "wait s2 e1", "launch s2", "record e1 s2",
                   "launch s2", "record e1 s2", "wait s2 e1", "launch s2", "record e1 s2"}));
}

// Graphs: eager calls and launches of graphs, on whatever streams, are one line by the event e1. In a graph the first
// call waits for it and the last one records it.

// The program has said what the stream's next node comes behind, and the call before is not among it.
TEST_F(Order, ACallInACaptureWaitsForTheOneBeforeWhateverTheProgramDidToTheStream) {
  device(0).captures = {{stream(8), 100}};
  ASSERT_EQ(all_reduce(0, 8), ncclSuccess);
  device(0).cut = {stream(8)};
  ASSERT_EQ(all_reduce(0, 8), ncclSuccess);
  ASSERT_EQ(all_reduce(0, 8), ncclSuccess);
  EXPECT_EQ(device(0).take_notes(),
            (Notes{"wait outside s8 e1", "launch s8", "record e5 s8", "record outside e1 s8",  //
                   "wait s8 e5", "launch s8", "record e5 s8", "move record outside e1 s8",     //
                   "launch s8", "record e5 s8", "move record outside e1 s8"}));
}

TEST_F(Order, AGraphWaitsForTheLineAtItsFirstCallAndRecordsItAfterItsLast) {
  device(0).captures = {{stream(8), 100}, {stream(9), 100}, {stream(10), 200}};
  ASSERT_EQ(all_reduce(0, 7), ncclSuccess);  // eager
  ASSERT_EQ(all_reduce(0, 8), ncclSuccess);  // captured by graph 100
  ASSERT_EQ(all_reduce(0, 8), ncclSuccess);
  ASSERT_EQ(all_reduce(0, 9), ncclSuccess);   // the same graph, another stream
  ASSERT_EQ(all_reduce(0, 10), ncclSuccess);  // another graph, while the first one is still captured
  ASSERT_EQ(all_reduce(0, 8), ncclSuccess);   // the first one again
  EXPECT_EQ(device(0).take_notes(), (Notes{"launch s7",
                                           "record e1 s7",  //
                                           "wait outside s8 e1",
                                           "launch s8",
                                           "record e5 s8",
                                           "record outside e1 s8",  //
                                           "launch s8",
                                           "record e5 s8",
                                           "move record outside e1 s8",  //
                                           "wait s9 e5",
                                           "launch s9",
                                           "record e5 s9",
                                           "move record outside e1 s9",  //
                                           "wait outside s10 e1",
                                           "launch s10",
                                           "record e6 s10",
                                           "record outside e1 s10",  //
                                           "wait s8 e5",
                                           "launch s8",
                                           "record e5 s8",
                                           "move record outside e1 s8"}));
}

TEST_F(Order, ACaptureNeverWaitsInItsOwnGraphForAnEventOfOutside) {
  device(0).captures = {{stream(8), 100}};
  ASSERT_EQ(all_reduce(0, 7), ncclSuccess);
  ASSERT_EQ(all_reduce(0, 8), ncclSuccess);
  for (const std::string& note : device(0).take_notes()) EXPECT_NE(note, "wait s8 e1");
}

TEST_F(Order, EagerCallsWaitForGraphsAsLongAsThereAreAny) {
  device(0).captures = {{stream(8), 100}};
  ASSERT_EQ(all_reduce(0, 7), ncclSuccess);
  ASSERT_EQ(all_reduce(0, 8), ncclSuccess);
  device(0).take_notes();
  const Notes waits{"wait s7 e1", "launch s7", "record e1 s7"};
  const Notes does_not{"launch s7", "record e1 s7"};
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(all_reduce(0, 7), ncclSuccess);  // the graph may have been launched before each of these
    EXPECT_EQ(device(0).take_notes(), waits);
  }
  device(0).kept.clear();  // the program destroys the graph, maybe right after it was launched
  ASSERT_EQ(all_reduce(0, 7), ncclSuccess);
  EXPECT_EQ(device(0).take_notes(), waits);
  ASSERT_EQ(all_reduce(0, 7), ncclSuccess);
  EXPECT_EQ(device(0).take_notes(), does_not);
}

TEST_F(Order, AGraphThatCameAndWentBetweenTwoCallsIsWaitedForToo) {
  ASSERT_EQ(all_reduce(0, 7), ncclSuccess);
  device(0).captures = {{stream(8), 100}};
  ASSERT_EQ(all_reduce(0, 8), ncclSuccess);
  device(0).kept.clear();
  device(0).take_notes();
  ASSERT_EQ(all_reduce(0, 7), ncclSuccess);
  EXPECT_EQ(device(0).take_notes(), (Notes{"wait s7 e1", "launch s7", "record e1 s7"}));
}

TEST_F(Order, NcclsCallsInAGraphAreInItsLine) {
  device(0).captures = {{stream(8), 100}};
  device(1).captures = {{stream(8), 100}};
  reduce_by_nccl(8);
  ASSERT_EQ(all_reduce(0, 8), ncclSuccess);
  EXPECT_EQ(device(0).take_notes(), (Notes{"wait outside s8 e1", "record e5 s8", "record outside e1 s8", "launch s8",
                                           "record e5 s8", "move record outside e1 s8"}));
}

TEST_F(Order, TheEventOfAGraphIsNotUsedAgainBeforeTheGraphHasGone) {
  std::shared_ptr<FakeDevice> device;
  run_threads(2, [&](ncclComm_t own, int rank) {
    FakeDevice& mine = *FakeDevices::opened_here().back();
    mine.captures = {{stream(8), 100}};
    ASSERT_EQ(ncclAllReduce(values, results[rank], 4, ncclFloat32, ncclSum, own, stream(8)), ncclSuccess);
    if (rank == 0) device = FakeDevices::opened_here().back();
  });
  ASSERT_TRUE(device);
  EXPECT_EQ(device->retired.size(), 0u) << "the graph still records it";
  device->kept.clear();
  EXPECT_EQ(device->retired.size(), 1u);
}

class WithoutMixing : public TwoRanks {
 protected:
  WithoutMixing() : TwoRanks("0") {}
};

TEST_F(WithoutMixing, GraphsHaveNoNodeOfOurs) {
  device(0).captures = {{stream(8), 100}, {stream(9), 100}};
  ASSERT_EQ(all_reduce(0, 8), ncclSuccess);
  ASSERT_EQ(all_reduce(0, 9), ncclSuccess);
  ASSERT_EQ(all_reduce(0, 7), ncclSuccess);
  EXPECT_EQ(device(0).take_notes(), (Notes{"launch s8", "record e5 s8", "wait s9 e5", "launch s9", "record e5 s9",
                                           "launch s7", "record e1 s7"}));
}

// Nothing says whether such a graph runs.
TEST_F(WithoutMixing, TheMemoryOfACommunicatorGoesWithItsGraphs) {
  ncclComm_t more[2] = {};
  ASSERT_EQ(ncclCommInitAll(more, 2, nullptr), ncclSuccess);
  FakeDevice& mine = device(2);
  mine.captures = {{stream(8), 100}, {stream(9), 200}};
  for (const std::uintptr_t on : {8, 8, 9}) {
    ASSERT_EQ(ncclAllReduce(values, values, 4, ncclFloat32, ncclSum, more[0], stream(on)), ncclSuccess);
  }
  EXPECT_EQ(mine.kept.size(), 2u) << "one in each graph";
  const std::weak_ptr<Communicator> ours = registry().find(more[0])->ours;
  for (ncclComm_t comm : more) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  EXPECT_FALSE(ours.expired());
  mine.kept.erase(200);
  EXPECT_FALSE(ours.expired());
  mine.kept.erase(100);
  EXPECT_TRUE(eventually([&] { return ours.expired(); }));
}

// A program may give up a graph and go on without: NCCL alone survives it.
TEST_F(Order, ABrokenCaptureIsTheCallersErrorAndPoisonsNothing) {
  for (int rank = 0; rank < 2; ++rank) device(rank).captures = {{stream(8), lost_capture}};
  EXPECT_EQ(all_reduce(0, 8), ncclUnhandledCudaError);
  EXPECT_EQ(ncclReduce(values, results[0], 4, ncclFloat32, ncclSum, 0, comms[0], stream(8)), ncclUnhandledCudaError);
  EXPECT_EQ(device(0).take_notes(), Notes{});
  device(0).captures.clear();
  ASSERT_EQ(all_reduce(0, 8), ncclSuccess);
  ASSERT_EQ(all_reduce(1, 7), ncclSuccess) << "nor on the other ranks";
}

TEST_F(Order, AConfigWithoutMixingLeavesGraphsAlone) {
  const ncclUniqueId id = new_id();
  ncclConfig_t config;
  std::fill_n(reinterpret_cast<int*>(&config), sizeof config / sizeof(int), int(NCCL_CONFIG_UNDEF_INT));
  config.size = sizeof config;
  config.magic = unsigned(NCCL_API_MAGIC);
  config.netName = config.commName = nullptr;
  config.graphUsageMode = 1;
  ncclComm_t more[2] = {};
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_EQ(ncclCommInitRankConfig(&more[rank], 2, id, rank, &config), ncclSuccess) << ncclGetLastError(nullptr);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  FakeDevice& mine = device(2);
  mine.captures = {{stream(8), 100}};
  mine.take_notes();
  ASSERT_EQ(ncclAllReduce(values, values, 4, ncclFloat32, ncclSum, more[0], stream(8)), ncclSuccess);
  for (const std::string& note : mine.take_notes()) EXPECT_FALSE(contains(note, "outside")) << note;
  for (ncclComm_t comm : more) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

// Ranks change to smaller grids at the same call, so that they count alike: what one of them tries alone, and NCCL
// refuses, is none.
class Count : public TwoRanks {
 protected:
  std::uint64_t calls(int rank) {
    Share& share = *registry().find(comms[rank])->share;
    const std::uint64_t count = share.freeze();
    share.thaw();
    return count;
  }
};

TEST_F(Count, IsOfCallsThatTakePlace) {
  ASSERT_EQ(all_reduce(0, 7), ncclSuccess);
  EXPECT_EQ(calls(0), 1u);
  EXPECT_EQ(ncclAllReduce(values, values, 4, ncclDataType_t(77), ncclSum, comms[0], stream(7)), ncclInvalidArgument);
  EXPECT_EQ(calls(0), 1u) << "refused by NCCL";
  device(0).captures = {{stream(8), lost_capture}};
  EXPECT_EQ(all_reduce(0, 8), ncclUnhandledCudaError);
  EXPECT_EQ(calls(0), 1u) << "into a broken capture";
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  ASSERT_EQ(all_reduce(0, 7), ncclSuccess);
  EXPECT_EQ(calls(0), 2u);
  EXPECT_EQ(ncclSend(values, 1, ncclFloat32, 99, comms[0], stream(7)), ncclInvalidArgument);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
  EXPECT_EQ(calls(0), 1u) << "of a group that NCCL refused";
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  ASSERT_EQ(all_reduce(0, 8), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclUnhandledCudaError);
  EXPECT_EQ(calls(0), 1u) << "of a group that did not start";
}

// Of one process, and of processes too where NCCL's end of a communicator waits for the other ranks of the host: what
// their kernels still write to must be there until then.
TEST_F(Order, MemoryGoesBehindNcclsOwnEndOfACommunicator) {
  static std::weak_ptr<Communicator> ours;
  static bool there = false;  // when NCCL ended the first one
  static decltype(real_nccl().destroy) by_nccl = nullptr;
  auto& real = const_cast<RealNccl&>(real_nccl());
  by_nccl = real.destroy;
  real.destroy = [](ncclComm_t comm) {
    there = there || !ours.expired();
    return by_nccl(comm);
  };
  ncclComm_t more[2] = {};
  for (const bool grouped : {false, true}) {
    ASSERT_EQ(ncclCommInitAll(more, 2, nullptr), ncclSuccess);
    ours = registry().find(more[0])->ours;
    there = false;
    if (grouped) {
      ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    }
    for (ncclComm_t comm : more) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
    if (grouped) {
      EXPECT_FALSE(ours.expired()) << "NCCL's own end comes with that of the group";
      ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
    }
    EXPECT_TRUE(there);
    EXPECT_TRUE(ours.expired());
  }
  real.destroy = by_nccl;
}

}  // namespace
}  // namespace busbw::gpu::test

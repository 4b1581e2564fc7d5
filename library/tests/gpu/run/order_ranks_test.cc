// Calls run in NCCL's order: one after the other on a communicator, a group's at its end, ours and NCCL's alike.
#include <algorithm>
#include <thread>

#include "library/common/nccl/real_nccl.h"
#include "library/gpu/api/registry.h"
#include "library/tests/gpu/ranks.h"

namespace busbw::gpu::test {
namespace {

using Notes = std::vector<std::string>;

// Two communicators of this thread, each with a GPU of its own.
class TwoRanks : public ::testing::Test {
 protected:
  explicit TwoRanks(const char* mixing = nullptr) {
    mixing ? ::setenv("NCCL_GRAPH_MIXING_SUPPORT", mixing, 1) : ::unsetenv("NCCL_GRAPH_MIXING_SUPPORT");
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

// While the program captures a stream in global mode, what other threads ask of the driver breaks the capture unless
// they have said that it shall not.
class Captures : public TwoRanks {
 protected:
  Captures() {
    devices.prepare = [](FakeDevice& made) { made.program_captures = true; };
    for (int rank = 0; rank < 2; ++rank) device(rank).program_captures = true;
  }
  void expect_unbroken() {
    for (const auto& one : FakeDevices::opened_here()) EXPECT_FALSE(one->capture_broken);
    EXPECT_EQ(capture_mode_here(), 0) << "the thread's mode must be as it was";
  }
};

TEST_F(Captures, CommunicatorsAreMadeAndDestroyedBesideThem) {
  const int before = FakeDevice::live_allocations();
  run_threads(2, [&](ncclComm_t comm, int) {
    ASSERT_TRUE(accelerated(comm));
    FakeDevice& mine = *FakeDevices::opened_here().back();
    ASSERT_EQ(ncclAllReduce(values, values, 4, ncclFloat32, ncclSum, comm, stream(7)), ncclSuccess);
    EXPECT_FALSE(mine.capture_broken);
    ASSERT_EQ(ncclCommFinalize(comm), ncclSuccess);
    EXPECT_FALSE(mine.capture_broken) << "waiting for the calls";
  });
  // Memory that peers have opened goes on a thread of its own.
  EXPECT_TRUE(eventually([&] { return FakeDevice::live_allocations() == before; }));
  std::vector<std::shared_ptr<FakeDevice>> made;
  ncclComm_t more[2] = {};
  ASSERT_EQ(ncclCommInitAll(more, 2, nullptr), ncclSuccess);
  for (ncclComm_t comm : more) ASSERT_EQ(ncclCommDestroy(comm), ncclSuccess);
  EXPECT_TRUE(eventually([&] { return FakeDevice::live_allocations() == before; }));
  expect_unbroken();
}

TEST_F(Captures, TheExchangeOverNcclRunsAside) {
  int mode = -1;
  auto& real = const_cast<RealNccl&>(real_nccl());
  static decltype(real.all_gather) by_nccl = nullptr;
  static int* seen = nullptr;
  by_nccl = real.all_gather;
  seen = &mode;
  real.all_gather = [](const void* send, void* recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                       ncclStream_t stream) {
    *seen = capture_mode_here();
    return by_nccl(send, recv, count, type, comm, stream);
  };
  ncclComm_t more[2] = {};
  EXPECT_EQ(ncclCommInitAll(more, 2, nullptr), ncclSuccess);
  real.all_gather = by_nccl;
  EXPECT_EQ(mode, 2);
  for (ncclComm_t comm : more) ASSERT_EQ(ncclCommDestroy(comm), ncclSuccess);
  expect_unbroken();
}

// A program warms NCCL up before it captures; what would have connected may all have been ours.
TEST_F(Captures, NcclMayConnectInThem) {
  static std::vector<int> modes;
  auto& real = const_cast<RealNccl&>(real_nccl());
  static decltype(real.group_end) end_of_nccl = nullptr;
  end_of_nccl = real.group_end;
  real.group_end = [] {
    modes.push_back(capture_mode_here());
    return end_of_nccl();
  };
  modes.clear();
  reduce_by_nccl(7);
  for (int rank = 0; rank < 2; ++rank) device(rank).captures = {{stream(8), 100}};
  reduce_by_nccl(8);
  real.group_end = end_of_nccl;
  EXPECT_EQ(modes, (std::vector<int>{0, 2})) << "eagerly, and in a capture";
  // Outside of a group too. The answer of an NCCL of one rank's is enough.
  static decltype(real.reduce) by_nccl = nullptr;
  by_nccl = real.reduce;
  real.reduce = [](const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, int, ncclComm_t, ncclStream_t) {
    modes.push_back(capture_mode_here());
    return ncclSuccess;
  };
  modes.clear();
  for (const std::uintptr_t on : {7, 8}) {
    EXPECT_EQ(ncclReduce(values, results[0], 4, ncclFloat32, ncclSum, 0, comms[0], stream(on)), ncclSuccess);
  }
  real.reduce = by_nccl;
  EXPECT_EQ(modes, (std::vector<int>{0, 2}));
  for (int rank = 0; rank < 2; ++rank) device(rank).captures.clear();
  expect_unbroken();
}

TEST_F(Captures, WindowsOpenAndCloseBesideThem) {
  const std::size_t bytes = 1 << 20;
  void* memory[2];
  ncclWindow_t windows[2] = {};
  {
    const AsideFromCaptures aside;
    for (int rank = 0; rank < 2; ++rank) memory[rank] = device(rank).allocate(bytes);
  }
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_EQ(ncclCommWindowRegister(comms[rank], memory[rank], bytes, &windows[rank], NCCL_WIN_COLL_SYMMETRIC),
              ncclSuccess);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_EQ(ncclCommWindowDeregister(comms[rank], windows[rank]), ncclSuccess);
  }
  expect_unbroken();
  const AsideFromCaptures aside;
  for (int rank = 0; rank < 2; ++rank) device(rank).release(memory[rank]);
}

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

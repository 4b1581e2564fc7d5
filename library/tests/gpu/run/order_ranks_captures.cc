// Part of order_ranks_test: what may be done beside a program's captures, and which calls go to NCCL.
#include "library/tests/gpu/run/two_ranks.h"
namespace busbw::gpu::test {
namespace {

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

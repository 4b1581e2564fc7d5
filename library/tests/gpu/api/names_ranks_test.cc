// A call keeps its place in the line whichever name it comes by: a profiler's, one with a configuration, a one-sided
// one.
#include "library/common/nccl/real_nccl.h"
#include "library/tests/gpu/ranks.h"

extern "C" {
ncclAllReduce_t pncclAllReduce;
ncclReduce_t pncclReduce;
ncclGroupStart_t pncclGroupStart;
ncclGroupEnd_t pncclGroupEnd;
ncclCommInitAll_t pncclCommInitAll;
ncclCommDestroy_t pncclCommDestroy;
ncclAllReduceConfig_t pncclAllReduceConfig;
}

namespace busbw::gpu::test {
namespace {

using Notes = std::vector<std::string>;

int configured_calls = 0;
int signals = 0;
ncclResult_t configured(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, ncclStream_t,
                        const ncclCollConfig_t* config) {
  EXPECT_EQ(config, reinterpret_cast<const ncclCollConfig_t*>(0x77));
  ++configured_calls;
  return ncclSuccess;
}
ncclResult_t signalled(int, int, int, unsigned, ncclComm_t, ncclStream_t) { return ++signals, ncclSuccess; }

class Names : public ::testing::Test {
 protected:
  Names() {
    FakeDevices::opened_here().clear();
    EXPECT_EQ(pncclCommInitAll(comms, 2, nullptr), ncclSuccess) << ncclGetLastError(nullptr);
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_TRUE(accelerated(comms[rank])) << explain(comms[rank], Collective::all_reduce, 256);
      device(rank).take_notes();
    }
    // The library in NCCL's place has none of these.
    auto& real = const_cast<RealNccl&>(real_nccl());
    real.all_reduce_config = real.profiling.all_reduce_config = configured;
    real.signal = signalled;
  }
  ~Names() override {
    for (ncclComm_t comm : comms) EXPECT_EQ(pncclCommDestroy(comm), ncclSuccess);
  }
  FakeDevice& device(int rank) { return *FakeDevices::opened_here().at(std::size_t(rank)); }
  ncclResult_t all_reduce(ncclAllReduce_t* function, std::uintptr_t on) {
    return function(values, values, 4, ncclFloat32, ncclSum, comms[0], stream(on));
  }

  FakeDevices devices;
  ncclComm_t comms[2] = {};
  float values[4] = {1, 2, 3, 4};
};

TEST_F(Names, ThoseForProfilersAreTakenInTheSameLine) {
  ASSERT_EQ(all_reduce(ncclAllReduce, 7), ncclSuccess);
  ASSERT_EQ(all_reduce(pncclAllReduce, 8), ncclSuccess);
  EXPECT_EQ(device(0).take_notes(), (Notes{"launch s7", "record e1 s7", "wait s8 e1", "launch s8", "record e1 s8"}));
}

TEST_F(Names, AGroupOfOneNameHoldsCallsOfTheOther) {
  ASSERT_EQ(pncclGroupStart(), ncclSuccess);
  ASSERT_EQ(all_reduce(ncclAllReduce, 7), ncclSuccess);
  EXPECT_EQ(device(0).take_notes(), Notes{}) << "it waits for the end";
  ASSERT_EQ(pncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(device(0).take_notes(), (Notes{"launch s7", "record e1 s7"}));
}

TEST_F(Names, CallsWithAConfigurationGoToNcclInTheSameLine) {
  const auto* config = reinterpret_cast<const ncclCollConfig_t*>(0x77);
  configured_calls = 0;
  ASSERT_EQ(all_reduce(ncclAllReduce, 7), ncclSuccess);
  ASSERT_EQ(ncclAllReduceConfig(values, values, 4, ncclFloat32, ncclSum, comms[0], stream(8), config), ncclSuccess);
  ASSERT_EQ(pncclAllReduceConfig(values, values, 4, ncclFloat32, ncclSum, comms[0], stream(9), config), ncclSuccess);
  ASSERT_EQ(all_reduce(ncclAllReduce, 7), ncclSuccess);
  EXPECT_EQ(configured_calls, 2);
  EXPECT_EQ(device(0).take_notes(), (Notes{"launch s7", "record e1 s7", "wait s8 e1", "record e1 s8", "wait s9 e1",
                                           "record e1 s9", "wait s7 e1", "launch s7", "record e1 s7"}));
}

TEST_F(Names, OneSidedCallsAreInTheSameLine) {
  signals = 0;
  ASSERT_EQ(all_reduce(ncclAllReduce, 7), ncclSuccess);
  ASSERT_EQ(ncclSignal(1, 0, 0, 0, comms[0], stream(8)), ncclSuccess);
  ASSERT_EQ(all_reduce(ncclAllReduce, 8), ncclSuccess);
  EXPECT_EQ(signals, 1);
  EXPECT_EQ(device(0).take_notes(),
            (Notes{"launch s7", "record e1 s7", "wait s8 e1", "record e1 s8", "launch s8", "record e1 s8"}));
}

TEST_F(Names, AHandleThatComesAgainAfterEitherNameIsANewCommunicator) {
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(all_reduce(ncclAllReduce, 7), ncclSuccess);
    for (ncclComm_t comm : comms) {
      ASSERT_EQ(round % 2 == 0 ? pncclCommDestroy(comm) : ncclCommDestroy(comm), ncclSuccess);
      char text[64] = "";
      busbwExplainCall(comm, 0, nullptr, nullptr, 4, ncclFloat32, ncclSum, text, sizeof text);
      EXPECT_TRUE(contains(text, "was not made through busbw")) << text;
    }
    FakeDevices::opened_here().clear();
    ASSERT_EQ(ncclCommInitAll(comms, 2, nullptr), ncclSuccess);
    device(0).take_notes();
    ASSERT_EQ(all_reduce(ncclAllReduce, 8), ncclSuccess);
    EXPECT_EQ(device(0).take_notes(), (Notes{"launch s8", "record e1 s8"})) << "nothing of the old one is waited for";
  }
}

}  // namespace
}  // namespace busbw::gpu::test

// Communicators of one GPU share it: ranks agree on smaller grids when another one is made, and all ranks change at the
// same call.
#include "library/tests/gpu/ranks.h"

namespace busbw::gpu::test {
namespace {

constexpr std::size_t long_vector = 8u << 20;  // of floats: wants every block there is

ncclResult_t all_reduce(ncclComm_t comm, std::size_t count = long_vector) {
  static float value = 0;
  return ncclAllReduce(&value, &value, count, ncclFloat32, ncclSum, comm, stream(7));
}

struct OneGpuEach {
  OneGpuEach() { devices.one_for_each_thread = true; }
  FakeDevices devices;
};

int last_channels() { return my_device().launches.empty() ? 0 : my_device().launches.back().channels; }

TEST(OneCommunicator, HasNearlyTheWholeGpu) {
  OneGpuEach devices;
  run_threads(4, [](ncclComm_t comm, int) {
    ASSERT_EQ(all_reduce(comm), ncclSuccess);
    EXPECT_EQ(last_channels(), 128);
  });
}

TEST(SeveralCommunicators, ShareTheGpuFromTheSameCallOn) {
  OneGpuEach devices;
  run_threads(3, [](ncclComm_t comm, int rank) {
    // Ranks are at different calls when the other one is made: rank 2 has made two already.
    for (int i = 0; i < rank; ++i) ASSERT_EQ(all_reduce(comm), ncclSuccess);
    ncclComm_t other = nullptr;
    ASSERT_EQ(ncclCommSplit(comm, 0, rank, &other, nullptr), ncclSuccess);
    for (int i = rank; i < 2; ++i) {
      ASSERT_EQ(all_reduce(comm), ncclSuccess);
      EXPECT_EQ(last_channels(), 128) << "call " << i << " of rank " << rank;
    }
    ASSERT_EQ(all_reduce(comm), ncclSuccess);
    EXPECT_EQ(last_channels(), 64) << rank;
    ASSERT_EQ(all_reduce(other), ncclSuccess);
    EXPECT_EQ(last_channels(), 64);
    EXPECT_EQ(ncclCommDestroy(other), ncclSuccess);
  });
}

TEST(SixtyFourCommunicators, AreAllAcceleratedAndFit) {
  OneGpuEach devices;
  run_threads(2, [](ncclComm_t comm, int rank) {
    std::vector<ncclComm_t> all{comm};
    while (all.size() < 64) {
      ASSERT_EQ(ncclCommSplit(comm, 0, rank, &all.emplace_back(), nullptr), ncclSuccess);
    }
    std::vector<float> values(1024);
    int blocks = 0;
    for (ncclComm_t one : all) {
      EXPECT_TRUE(accelerated(one)) << explain(one, Collective::all_reduce, 256);
      my_device().launches.clear();
      ASSERT_EQ(ncclAllReduce(values.data(), values.data(), values.size(), ncclFloat32, ncclSum, one, stream(7)),
                ncclSuccess);
      EXPECT_EQ(my_device().launches.size(), 1u);
      blocks += last_channels();
    }
    EXPECT_LE(blocks, 132);
    EXPECT_LT(my_device().allocated, 1u << 30);
    for (std::size_t i = 1; i < all.size(); ++i) EXPECT_EQ(ncclCommDestroy(all[i]), ncclSuccess);
  });
}

TEST(MaxCtas, IsTheMostThatAKernelTakes) {
  OneGpuEach devices;
  const ncclUniqueId id = new_id();
  const auto rank = [&](int me) {
    ncclConfig_t config;
    std::fill_n(reinterpret_cast<int*>(&config), sizeof config / sizeof(int), int(NCCL_CONFIG_UNDEF_INT));
    config.size = sizeof config;
    config.magic = unsigned(NCCL_API_MAGIC);
    config.version = 22800;
    config.netName = nullptr;
    config.commName = nullptr;
    config.maxCTAs = 4;
    ncclComm_t comm = nullptr;
    ASSERT_EQ(ncclCommInitRankConfig(&comm, 2, id, me, &config), ncclSuccess) << ncclGetLastError(nullptr);
    ASSERT_EQ(all_reduce(comm, 2048), ncclSuccess);
    EXPECT_GT(last_channels(), 0);
    EXPECT_LE(last_channels(), 4);
    // A child has its parent's.
    ncclComm_t child = nullptr;
    ASSERT_EQ(ncclCommSplit(comm, 0, me, &child, nullptr), ncclSuccess);
    ASSERT_EQ(all_reduce(child, 2048), ncclSuccess);
    EXPECT_LE(last_channels(), 4);
    EXPECT_EQ(ncclCommDestroy(child), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  };
  std::thread other([&] { rank(1); });
  rank(0);
  other.join();
}

}  // namespace
}  // namespace busbw::gpu::test

// Two communicators of one thread, each with a GPU of its own that writes down what is asked of it.
#pragma once

#include <algorithm>
#include <thread>

#include "library/common/nccl/real_nccl.h"
#include "library/gpu/api/registry.h"
#include "library/tests/gpu/ranks.h"

namespace busbw::gpu::test {

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

}  // namespace busbw::gpu::test

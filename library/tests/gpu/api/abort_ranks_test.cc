// An abort stays an abort where NCCL does everything: a call that waits for a peer comes back, in order.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <future>
#include <vector>

#include "busbw/nccl_abi.h"

namespace busbw::gpu::test {
namespace {

class OverTheCpuLibrary : public ::testing::Test {
 protected:
  OverTheCpuLibrary() { ::setenv("BUSBW_REAL_NCCL", BUSBW_TEST_CPU_LIBRARY, 1); }
  template <class Function>
  static Function* find(const char* name) {
    static void* library = ::dlopen(BUSBW_TEST_GPU_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<Function*>(::dlsym(library, name));
  }
};

TEST_F(OverTheCpuLibrary, ACallThatWaitsForAPeerComesBackOnceItsCommunicatorIsAborted) {
  ncclUniqueId id;
  ASSERT_EQ(find<ncclGetUniqueId_t>("ncclGetUniqueId")(&id), ncclSuccess);
  std::vector<ncclComm_t> comms(2);
  const auto make = [&](int rank) {
    return find<ncclCommInitRank_t>("ncclCommInitRank")(&comms[static_cast<std::size_t>(rank)], 2, id, rank);
  };
  auto other = std::async(std::launch::async, make, 1);
  ASSERT_EQ(make(0), ncclSuccess);
  ASSERT_EQ(other.get(), ncclSuccess);

  // Large enough for the way that touches shared memory while it waits.
  std::vector<float> send(1 << 20, 1.0f);
  std::vector<float> recv(send.size());
  auto waiting = std::async(std::launch::async, [&] {
    return find<ncclAllReduce_t>("ncclAllReduce")(send.data(), recv.data(), send.size(), ncclFloat32, ncclSum, comms[0],
                                                  nullptr);
  });
  ASSERT_EQ(waiting.wait_for(std::chrono::milliseconds(200)), std::future_status::timeout);
  EXPECT_EQ(find<ncclCommAbort_t>("ncclCommAbort")(comms[0]), ncclSuccess);
  ASSERT_EQ(waiting.wait_for(std::chrono::seconds(10)), std::future_status::ready);
  EXPECT_NE(waiting.get(), ncclSuccess);
  EXPECT_EQ(find<ncclCommAbort_t>("ncclCommAbort")(comms[1]), ncclSuccess);
}

}  // namespace
}  // namespace busbw::gpu::test

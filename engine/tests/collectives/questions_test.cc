// What the collectives ask the communicator in each call, as nccl-tests' do.
#include "engine/collectives/questions.h"

#include <gtest/gtest.h>

namespace busbw {
namespace {

int sizes_asked = 0;
int ranks_asked = 0;

NcclFunctions counting() {
  NcclFunctions f{};
  f.comm_count = [](ncclComm_t, int* count) { return ++sizes_asked, *count = 2, ncclSuccess; };
  f.comm_user_rank = [](ncclComm_t, int* rank) { return ++ranks_asked, *rank = 0, ncclSuccess; };
  f.group_start = f.group_end = [] { return ncclSuccess; };
  f.all_reduce = [](auto...) { return ncclSuccess; };
  f.broadcast = [](auto...) { return ncclSuccess; };
  f.send = [](auto...) { return ncclSuccess; };
  f.recv = [](auto...) { return ncclSuccess; };
  f.gather = [](auto...) { return ncclSuccess; };
  f.scatter = [](auto...) { return ncclSuccess; };
  return f;
}

struct Asked {
  int sizes = 0;
  int ranks = 0;
  friend bool operator==(const Asked&, const Asked&) = default;
};

Asked asked_by(const char* name, const NcclFunctions& nccl) {
  const std::unique_ptr<Collective> collective = make_collective(name);
  const Seat seat{.rank = 0, .ranks = 2};
  const std::function<void(void*, const void*, std::size_t)> copy = [](void*, const void*, std::size_t) {};
  std::vector<char> memory(4096);
  sizes_asked = ranks_asked = 0;
  const ncclResult_t result = collective->enqueue({.nccl = nccl,
                                                   .copy = copy,
                                                   .send = memory.data(),
                                                   .recv = memory.data(),
                                                   .geometry = collective->geometry({1024}, DataType::float32, seat),
                                                   .seat = seat});
  EXPECT_EQ(result, ncclSuccess) << name;
  return {sizes_asked, ranks_asked};
}

TEST(Questions, AreThoseThatNcclTestsAsksInEachCall) {
  const NcclFunctions nccl = counting();
  EXPECT_EQ(asked_by("all_reduce", nccl), (Asked{0, 0}));
  EXPECT_EQ(asked_by("broadcast", nccl), (Asked{0, 1}));
  for (const char* name : {"sendrecv", "gather", "scatter", "alltoallv", "hypercube"})
    EXPECT_EQ(asked_by(name, nccl), (Asked{1, 1})) << name;
  EXPECT_EQ(asked_by("alltoall", nccl), (Asked{1, 0}));  // of a library without ncclAlltoAll
}

TEST(Questions, AreLeftOutWhereTheLibraryCannotAnswer) {
  NcclFunctions nccl = counting();
  nccl.comm_count = nullptr;
  nccl.comm_user_rank = nullptr;
  EXPECT_EQ(asked_by("sendrecv", nccl), (Asked{0, 0}));
}

}  // namespace
}  // namespace busbw

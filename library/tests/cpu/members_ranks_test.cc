// Communicators made of another one with fewer or more ranks, and what programs that are linked to NCCL find besides.
#include <dlfcn.h>

#include <fstream>
#include <string>

#include "library/common/nccl/functions.h"
#include "library/tests/cpu/ended_ranks.h"

extern "C" {
ncclCommShrink_t ncclCommShrink;
ncclCommGrow_t ncclCommGrow;
ncclCommRevoke_t ncclCommRevoke;
ncclCommInitRankScalable_t ncclCommInitRankScalable;
ncclAllReduceConfig_t ncclAllReduceConfig;
ncclBroadcastConfig_t ncclBroadcastConfig;
ncclPutSignal_t ncclPutSignal;
ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId* id);
ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t window, void** pointer);
}

namespace busbw::cpu::test {
namespace {

// The sum of 1 << rank over the ranks of `comm`, for those whose numbers there are in order.
int sum_of_bits(ncclComm_t comm) {
  int rank = -1;
  EXPECT_EQ(ncclCommUserRank(comm, &rank), ncclSuccess);
  const int mine = 1 << rank;
  int all = 0;
  EXPECT_EQ(ncclAllReduce(&mine, &all, 1, ncclInt32, ncclSum, comm, nullptr), ncclSuccess) << ncclGetLastError(comm);
  return all;
}

ncclComm_t shrunk(ncclComm_t comm, std::vector<int> excluded, int flags) {
  ncclComm_t result = nullptr;
  EXPECT_EQ(ncclCommShrink(comm, excluded.data(), int(excluded.size()), &result, nullptr, flags), ncclSuccess)
      << ncclGetLastError(comm);
  return result;
}

class Members : public ::testing::TestWithParam<Placement> {};
INSTANTIATE_TEST_SUITE_P(Placed, Members, ::testing::Values(Placement{1, 4}, Placement{2, 2}, Placement{4, 1}),
                         [](const auto& case_) { return name_of(case_.param); });

TEST_P(Members, ThatStayAreNumberedAnew) {
  run_placed(GetParam(), [](ncclComm_t comm, int rank) {
    if (rank == 1) return;
    const ncclComm_t small = shrunk(comm, {1}, 0);
    int now = -1;
    int ranks = 0;
    ASSERT_EQ(ncclCommUserRank(small, &now), ncclSuccess);
    ASSERT_EQ(ncclCommCount(small, &ranks), ncclSuccess);
    EXPECT_EQ(now, rank == 0 ? 0 : rank - 1);
    EXPECT_EQ(ranks, 3);
    EXPECT_EQ(sum_of_bits(small), 7);
    // Once more of the same parent, without the same rank: another communicator, which the first one does not disturb.
    const ncclComm_t second = shrunk(comm, {1}, 0);
    EXPECT_EQ(sum_of_bits(second), 7);
    EXPECT_EQ(sum_of_bits(small), 7);
    EXPECT_EQ(ncclCommDestroy(second), ncclSuccess);
    if (rank == 0) {
      const ncclComm_t alone = shrunk(small, {2, 1}, 0);
      EXPECT_EQ(sum_of_bits(alone), 1);
      EXPECT_EQ(ncclCommDestroy(alone), ncclSuccess);
    }
    EXPECT_EQ(ncclCommDestroy(small), ncclSuccess);
  });
}

TEST_P(Members, GoOnWithoutARankThatDoesNotCome) {
  run_placed(GetParam(), [](ncclComm_t comm, int rank) {
    if (rank == 3) return;
    // Rank 0 ends the others' call, for which rank 3 is missing.
    if (rank != 0) {
      EXPECT_EQ(sum_one(comm), ncclRemoteError);
    }
    const ncclComm_t small = shrunk(comm, {3}, NCCL_SHRINK_ABORT);
    EXPECT_EQ(sum_of_bits(small), 7);
    EXPECT_EQ(ncclCommDestroy(small), ncclSuccess);
  });
}

TEST_P(Members, MayRevokeACommunicatorAndMakeASmallerOneOfIt) {
  run_placed(GetParam(), [](ncclComm_t comm, int rank) {
    if (rank == 2) return;
    EXPECT_EQ(ncclCommRevoke(comm, 0), ncclSuccess);
    ncclResult_t state = ncclInternalError;
    EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
    EXPECT_EQ(state, ncclSuccess);
    EXPECT_EQ(sum_one(comm), ncclInvalidUsage);
    EXPECT_TRUE(contains(ncclGetLastError(comm), "communicator was revoked here")) << ncclGetLastError(comm);
    const ncclComm_t small = shrunk(comm, {2}, 0);
    EXPECT_EQ(sum_of_bits(small), 7);
    EXPECT_EQ(ncclCommDestroy(small), ncclSuccess);
  });
}

TEST_P(Members, MayRevokeACommunicatorAndSplitIt) {
  run_placed(GetParam(), [](ncclComm_t comm, int rank) {
    EXPECT_EQ(ncclCommRevoke(comm, 0), ncclSuccess);
    for (int turn = 0; turn < 2; ++turn) {
      ncclComm_t half = nullptr;
      ASSERT_EQ(ncclCommSplit(comm, rank % 2, 0, &half, nullptr), ncclSuccess) << ncclGetLastError(nullptr);
      EXPECT_EQ(sum_of_bits(half), 3);
      EXPECT_EQ(ncclCommDestroy(half), ncclSuccess);
    }
  });
}

TEST(Shrink, RefusesListsThatMakeNoCommunicator) {
  run_threads(new_id(), 3, 0, 3, [](ncclComm_t comm, int rank) {
    const auto refused = [&](std::vector<int> list, int count, const char* why) {
      ncclComm_t result = nullptr;
      EXPECT_EQ(ncclCommShrink(comm, list.data(), count, &result, nullptr, 0), ncclInvalidArgument);
      EXPECT_TRUE(contains(ncclGetLastError(comm), why)) << ncclGetLastError(comm);
    };
    refused({0}, 0, "is empty");
    refused({(rank + 1) % 3, 7}, 2, "ranks go from 0 to 2");
    refused({(rank + 1) % 3, (rank + 1) % 3}, 2, "stands twice");
    refused({rank}, 1, "only ranks that stay");
    refused({0, 1, 2}, 3, "one has to stay");
  });
}

TEST_P(Members, KeepTheirNumbersWhereOthersJoin) {
  const ncclUniqueId meeting = new_id();
  run_placed(GetParam(), [&](ncclComm_t wide, int rank) {
    // Two of the ranks have a communicator; the others join it. The wide one hands them the id.
    ncclComm_t comm = nullptr;
    if (rank < 2) {
      ASSERT_EQ(ncclCommInitRank(&comm, 2, meeting, rank), ncclSuccess) << ncclGetLastError(nullptr);
    }
    ncclUniqueId id{};
    if (rank == 1) {
      EXPECT_EQ(ncclCommGetUniqueId(comm, &id), ncclSuccess);
    }
    ASSERT_EQ(ncclBroadcast(&id, &id, sizeof id, ncclUint8, 1, wide, nullptr), ncclSuccess);
    ncclComm_t large = nullptr;
    ASSERT_EQ(ncclCommGrow(comm, 4, rank == 0 ? nullptr : &id, rank < 2 ? -1 : rank, &large, nullptr), ncclSuccess)
        << ncclGetLastError(comm);
    int now = -1;
    ASSERT_EQ(ncclCommUserRank(large, &now), ncclSuccess);
    EXPECT_EQ(now, rank);
    EXPECT_EQ(sum_of_bits(large), 15);
    EXPECT_EQ(ncclCommDestroy(large), ncclSuccess);
    if (comm) ncclCommDestroy(comm);
  });
}

TEST(Grow, SaysWhatIsMissing) {
  run_threads(new_id(), 2, 0, 2, [](ncclComm_t comm, int) {
    ncclComm_t large = nullptr;
    EXPECT_EQ(ncclCommGrow(comm, 3, nullptr, -1, &large, nullptr), ncclInvalidArgument);
    EXPECT_TRUE(contains(ncclGetLastError(comm), "No rank gave the id")) << ncclGetLastError(comm);
    EXPECT_EQ(ncclCommGrow(comm, 2, nullptr, -1, &large, nullptr), ncclInvalidArgument);
    EXPECT_TRUE(contains(ncclGetLastError(comm), "cannot grow to 2 ranks")) << ncclGetLastError(comm);
    EXPECT_EQ(sum_one(comm), ncclSuccess);
  });
}

TEST(LaterFunctions, WorkWhereTheyNeedNoGpu) {
  ncclUniqueId ids[2] = {new_id(), new_id()};
  ncclComm_t comm = nullptr;
  ASSERT_EQ(ncclCommInitRankScalable(&comm, 1, 0, 2, ids, nullptr), ncclSuccess) << ncclGetLastError(nullptr);
  const int mine = 5;
  int all = 0;
  EXPECT_EQ(ncclAllReduceConfig(&mine, &all, 1, ncclInt32, ncclSum, comm, nullptr, nullptr), ncclSuccess);
  EXPECT_EQ(all, 5);
  int copy = 0;
  EXPECT_EQ(ncclBroadcastConfig(&mine, &copy, 1, ncclInt32, 0, comm, nullptr, nullptr), ncclSuccess);
  EXPECT_EQ(copy, 5);
  ncclWindow_t window = nullptr;
  void* back = nullptr;
  EXPECT_EQ(ncclCommWindowRegister(comm, &all, sizeof all, &window, 0), ncclSuccess);
  EXPECT_EQ(ncclWinGetUserPtr(comm, window, &back), ncclSuccess);
  EXPECT_EQ(back, &all);
  EXPECT_EQ(ncclPutSignal(&mine, 1, ncclInt32, 0, window, 0, 0, 0, 0, comm, nullptr), ncclInvalidUsage);
  EXPECT_TRUE(contains(ncclGetLastError(nullptr), "ncclPutSignal needs GPUs")) << ncclGetLastError(nullptr);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

// Of NCCL's own list: what it had with 2.27 and what host memory can do of the rest. Those that remain make things for
// kernels, name teams of GPUs or read parameters of NCCL.
TEST(LaterFunctions, AreAllThereButThoseForKernelsAndParameters) {
  std::ifstream list(BUSBW_TEST_NCCL_FUNCTIONS);
  ASSERT_TRUE(list);
  std::string line;
  int found = 0;
  std::getline(list, line);
  while (std::getline(list, line)) {
    const std::string name = line.substr(0, line.find(' '));
    bool is_elsewhere = false;
    for (const char* part : {"Requirement", "Team", "Param", "LLA2A", "ResetDebug", "DeviceLeInfo", "Encryption"})
      is_elsewhere = is_elsewhere || name.find(part) != std::string::npos;
    if (is_elsewhere) continue;
    EXPECT_TRUE(::dlsym(RTLD_DEFAULT, name.c_str())) << name;
    ++found;
  }
  EXPECT_GT(found, 50);
}

}  // namespace
}  // namespace busbw::cpu::test

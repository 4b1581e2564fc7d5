// Groups and point-to-point messages: nothing in a group waits for its order, whatever shares a thread.
#include <numeric>

#include "library/tests/cpu/ranks.h"

namespace busbw::cpu::test {
namespace {

std::vector<int> numbered(std::size_t count, int first) {
  std::vector<int> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

class Messages : public ::testing::TestWithParam<Placement> {};

TEST_P(Messages, OfAnySizeCrossEachOtherInOneGroup) {
  const int ranks = GetParam().ranks();
  run_placed(GetParam(), [&](ncclComm_t comm, int rank) {
    for (const std::size_t count : {0, 1, 100, 4096, 70000, 300000}) {
      std::vector<std::vector<int>> out, in;
      for (int peer = 0; peer < ranks; ++peer) {
        out.push_back(numbered(count + 1, rank * 1000 + peer));
        in.emplace_back(count + 1, -1);
      }
      ASSERT_EQ(ncclGroupStart(), ncclSuccess);
      // Sends first on even ranks, receives first on odd ones, peers in opposite orders: the order must not matter.
      for (const bool sending : {rank % 2 == 0, rank % 2 != 0}) {
        for (int i = 0; i < ranks; ++i) {
          const auto peer = std::size_t(rank % 2 ? i : ranks - 1 - i);
          ASSERT_EQ(sending ? ncclSend(out[peer].data(), count, ncclInt32, int(peer), comm, nullptr)
                            : ncclRecv(in[peer].data(), count, ncclInt32, int(peer), comm, nullptr),
                    ncclSuccess);
        }
      }
      ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(comm);
      for (int peer = 0; peer < ranks; ++peer) {
        std::vector<int> wanted = numbered(count + 1, peer * 1000 + rank);
        wanted.back() = -1;
        ASSERT_EQ(in[std::size_t(peer)], wanted) << count << " elements from " << peer << " to " << rank;
      }
    }
  });
}

TEST_P(Messages, BetweenTwoRanksArriveInOrder) {
  const int ranks = GetParam().ranks();
  run_placed(GetParam(), [&](ncclComm_t comm, int rank) {
    if (rank > 1) return;
    ASSERT_GE(ranks, 2);
    constexpr std::size_t messages = 50;
    std::vector<std::vector<int>> data;
    for (std::size_t i = 0; i < messages; ++i)
      data.push_back(rank == 0 ? numbered(i * 977, int(i)) : std::vector<int>(i * 977));
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    for (auto& message : data) {
      ASSERT_EQ(rank == 0 ? ncclSend(message.data(), message.size(), ncclInt32, 1, comm, nullptr)
                          : ncclRecv(message.data(), message.size(), ncclInt32, 0, comm, nullptr),
                ncclSuccess);
    }
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(comm);
    for (std::size_t i = 0; i < messages; ++i) ASSERT_EQ(data[i], numbered(i * 977, int(i)));
  });
}

TEST_P(Messages, WithoutAGroupPassFromOneToTheOther) {
  run_placed(GetParam(), [&](ncclComm_t comm, int rank) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{200000}}) {
      std::vector<int> data = rank == 0 ? numbered(count, 5) : std::vector<int>(count);
      if (rank == 0) {
        ASSERT_EQ(ncclSend(data.data(), count, ncclInt32, 1, comm, nullptr), ncclSuccess);
      }
      if (rank == 1) {
        ASSERT_EQ(ncclRecv(data.data(), count, ncclInt32, 0, comm, nullptr), ncclSuccess);
        ASSERT_EQ(data, numbered(count, 5));
      }
    }
  });
}

TEST_P(Messages, MixWithCollectivesInOneGroupInAnyOrder) {
  const int ranks = GetParam().ranks();
  run_placed(GetParam(), [&](ncclComm_t comm, int rank) {
    for (int round = 0; round < 50; ++round) {
      const int next = (rank + 1) % ranks;
      const int previous = (rank + ranks - 1) % ranks;
      std::vector<int> sum(3000, 1), token{rank * 100 + round}, got{-1}, ones(7, 1);
      ASSERT_EQ(ncclGroupStart(), ncclSuccess);
      if (rank == 0) ncclSend(token.data(), 1, ncclInt32, next, comm, nullptr);
      ncclAllReduce(sum.data(), sum.data(), sum.size(), ncclInt32, ncclSum, comm, nullptr);
      if (rank != 0) ncclSend(token.data(), 1, ncclInt32, next, comm, nullptr);
      ncclAllReduce(ones.data(), ones.data(), ones.size(), ncclInt32, ncclSum, comm, nullptr);
      ncclRecv(got.data(), 1, ncclInt32, previous, comm, nullptr);
      ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(comm);
      ASSERT_EQ(sum, std::vector<int>(3000, ranks));
      ASSERT_EQ(ones, std::vector<int>(7, ranks));
      ASSERT_EQ(got[0], previous * 100 + round);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Threads, Messages, ::testing::Values(Placement{1, 2}, Placement{1, 4}),
                         [](const auto& info) { return name_of(info.param); });
#if !defined(__SANITIZE_THREAD__)
INSTANTIATE_TEST_SUITE_P(Processes, Messages, ::testing::Values(Placement{2, 1}, Placement{2, 2}),
                         [](const auto& info) { return name_of(info.param); });
#endif

TEST(Group, LetsOneThreadDriveEveryRank) {
  constexpr int ranks = 4;
  std::vector<ncclComm_t> comms(ranks);
  ASSERT_EQ(ncclCommInitAll(comms.data(), ranks, nullptr), ncclSuccess) << ncclGetLastError(nullptr);
  for (const std::size_t count : {1, 1000, 100000}) {
    std::vector<std::vector<float>> data(ranks, std::vector<float>(count, 1.5f));
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    for (int rank = 0; rank < ranks; ++rank) {
      auto& mine = data[std::size_t(rank)];
      ASSERT_EQ(ncclAllReduce(mine.data(), mine.data(), count, ncclFloat32, ncclSum, comms[std::size_t(rank)], nullptr),
                ncclSuccess);
    }
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
    for (const auto& result : data) ASSERT_EQ(result, std::vector<float>(count, 6.0f));
  }
  for (int rank = 0; rank < ranks; ++rank) {
    int count = 0, user_rank = -1, device = -1;
    EXPECT_EQ(ncclCommCount(comms[std::size_t(rank)], &count), ncclSuccess);
    EXPECT_EQ(ncclCommUserRank(comms[std::size_t(rank)], &user_rank), ncclSuccess);
    EXPECT_EQ(ncclCommCuDevice(comms[std::size_t(rank)], &device), ncclSuccess);
    EXPECT_EQ(count, ranks);
    EXPECT_EQ(user_rank, rank);
    EXPECT_EQ(device, rank);
  }
  for (ncclComm_t comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

TEST(Group, MakesSeveralCommunicatorsAtOnce) {
  const ncclUniqueId first = new_id(), second = new_id();
  ncclComm_t comms[4];
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_EQ(ncclCommInitRank(&comms[rank], 2, first, rank), ncclSuccess);
    ASSERT_EQ(ncclCommInitRank(&comms[2 + rank], 2, second, 1 - rank), ncclSuccess);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
  for (ncclComm_t comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

TEST(Group, NestsAndRunsOnlyAtTheOutermostEnd) {
  run_placed({1, 2}, [](ncclComm_t comm, int) {
    int value = 3;
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    ASSERT_EQ(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, nullptr), ncclSuccess);
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
    EXPECT_EQ(value, 3);
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
    EXPECT_EQ(value, 6);
  });
}

TEST(Group, ReportsACallThatWasRefusedInside) {
  run_placed({1, 2}, [](ncclComm_t comm, int) {
    int value = 1;
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclDataType_t(99), ncclSum, comm, nullptr), ncclInvalidArgument);
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
    EXPECT_EQ(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, comm, nullptr), ncclSuccess);
    EXPECT_EQ(value, 2);
  });
}

TEST(Group, EndWithoutStartIsInvalidUsage) { EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage); }

TEST(Split, MakesSmallerCommunicatorsInTheOrderOfTheKeys) {
  run_placed({1, 4}, [](ncclComm_t comm, int rank) {
    ncclComm_t part = nullptr;
    const int color = rank == 3 ? NCCL_SPLIT_NOCOLOR : rank % 2;
    ASSERT_EQ(ncclCommSplit(comm, color, -rank, &part, nullptr), ncclSuccess) << ncclGetLastError(comm);
    if (rank == 3) {
      EXPECT_EQ(part, nullptr);
      return;
    }
    int count = 0, new_rank = -1, value = rank;
    ncclCommCount(part, &count);
    ncclCommUserRank(part, &new_rank);
    EXPECT_EQ(count, rank == 1 ? 1 : 2);
    EXPECT_EQ(new_rank, rank == 0 ? 1 : 0);
    ASSERT_EQ(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, part, nullptr), ncclSuccess);
    EXPECT_EQ(value, rank == 1 ? 1 : 2);
    EXPECT_EQ(ncclCommDestroy(part), ncclSuccess);
  });
}

}  // namespace
}  // namespace busbw::cpu::test

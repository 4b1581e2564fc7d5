// Peers that read from a rank's own buffers: no scratch between, right data, and memory that is given up in time.
#include <numeric>

#include "library/tests/gpu/join/lending_of_ranks.h"

namespace busbw::gpu::test {
namespace {

TEST_F(LendingOfRanks, InPlaceGathersTakeOneCopyForEachPeer) {
  run_processes(3, [](ncclComm_t comm, int rank) {
    const Memory all(3 * block);
    float* const mine = all.at + std::size_t(rank) * block;
    EXPECT_EQ(gather(comm, rank, 3, 0, all.at, mine), 3) << "the peers do not know this memory yet";
    for (int number = 1; number < 12; ++number) EXPECT_EQ(gather(comm, rank, 3, number, all.at, mine), 2) << number;
  });
}

TEST_F(LendingOfRanks, OthersTakeOneMore) {
  run_processes(2, [](ncclComm_t comm, int rank) {
    const Memory all(2 * block), mine(block);
    EXPECT_EQ(gather(comm, rank, 2, 0, all.at, mine.at), 3);
    for (int number = 1; number < 8; ++number) EXPECT_EQ(gather(comm, rank, 2, number, all.at, mine.at), 2) << number;
  });
}

TEST_F(LendingOfRanks, AllToAllsToo) {
  run_processes(2, [](ncclComm_t comm, int rank) {
    const Memory send(2 * block), recv(2 * block);
    for (int number = 0; number < 6; ++number) {
      for (std::size_t i = 0; i < 2 * block; ++i) send.at[i] = value(rank, number, i);
      my_device().take_notes();
      ASSERT_EQ(ncclAlltoAll(send.at, recv.at, block, ncclFloat32, comm, stream(7)), ncclSuccess);
      EXPECT_EQ(copies(my_device().take_notes()), number == 0 ? 3 : 2) << number;
      for (std::size_t i = 0; i < 2 * block; ++i) {
        const float wanted = value(int(i / block), number, std::size_t(rank) * block + i % block);
        ASSERT_EQ(recv.at[i], wanted) << rank << ' ' << number << ' ' << i;
      }
    }
  });
}

TEST_F(LendingOfRanks, OneRankThatDoesNotKeepsAllFromIt) {
  run_processes(2, [](ncclComm_t comm, int rank) {
    const Memory all(2 * block), mine(block);
    const std::vector<float> elsewhere(block);
    for (int number = 0; number < 4; ++number) gather(comm, rank, 2, number, all.at, mine.at);
    float* const odd = rank == 1 ? const_cast<float*>(elsewhere.data()) : mine.at;
    for (int number = 4; number < 7; ++number) EXPECT_EQ(gather(comm, rank, 2, number, all.at, odd), 3) << number;
    EXPECT_EQ(gather(comm, rank, 2, 7, all.at, mine.at), 2);
  });
}

TEST_F(LendingOfRanks, CanBeSwitchedOffOnOneRank) {
  run_processes(2, [](ncclComm_t comm, int rank) {
    const Memory all(2 * block);
    for (int number = 0; number < 4; ++number) {
      EXPECT_EQ(gather(comm, rank, 2, number, all.at, all.at + std::size_t(rank) * block), number == 0 ? 2 : 1);
    }
  });
  const ncclUniqueId id = new_id();
  std::vector<pid_t> children;
  for (int rank = 0; rank < 2; ++rank) {
    children.push_back(start_process([&, rank] {
      if (rank == 1) ::setenv("BUSBW_LEND", "0", 1);
      run_rank(id, 2, rank, [](ncclComm_t comm, int me) {
        const Memory all(2 * block), mine(block);
        for (int number = 0; number < 4; ++number) EXPECT_EQ(gather(comm, me, 2, number, all.at, mine.at), 3);
      });
    }));
  }
  for (const pid_t child : children) EXPECT_EQ(wait_for(child), 0);
}

// As the program frees it: every rank lets go within moments, and other memory at the address is not taken for it.
TEST_F(LendingOfRanks, FreedMemoryIsClosedByThePeers) {
  run_processes(2, [](ncclComm_t comm, int rank) {
    const std::size_t before = my_device().opened_now();
    auto all = std::make_unique<Memory>(2 * block);
    for (int number = 0; number < 4; ++number) {
      gather(comm, rank, 2, number, all->at, all->at + std::size_t(rank) * block);
    }
    EXPECT_EQ(my_device().opened_now(), before + 1);
    barrier(comm);
    all.reset();
    EXPECT_TRUE(eventually([&] { return my_device().opened_now() == before; }));
    barrier(comm);
    const Memory next(2 * block);
    for (int number = 4; number < 8; ++number) {
      const auto made = gather(comm, rank, 2, number, next.at, next.at + std::size_t(rank) * block);
      EXPECT_TRUE(made == 2 || made == 1) << made;
      if (number > 5) {
        EXPECT_EQ(made, 1);
      }
    }
  });
}

TEST_F(LendingOfRanks, EndsWhereMemoryRunsShort) {
  run_processes(2, [](ncclComm_t comm, int rank) {
    const std::size_t before = my_device().opened_now();
    const Memory all(2 * block);
    float* const mine = all.at + std::size_t(rank) * block;
    for (int number = 0; number < 4; ++number) gather(comm, rank, 2, number, all.at, mine);
    EXPECT_EQ(my_device().opened_now(), before + 1);
    barrier(comm);
    my_device().free_bytes = 1000;
    EXPECT_TRUE(eventually([&] { return my_device().opened_now() == before; }));
    for (int number = 4; number < 8; ++number) EXPECT_EQ(gather(comm, rank, 2, number, all.at, mine), 2) << number;
  });
}

TEST_F(LendingOfRanks, WhatIsInUseStaysOpen) {
  run_processes(2, [](ncclComm_t comm, int rank) {
    const std::size_t before = my_device().opened_now();
    auto all = std::make_unique<Memory>(2 * block);
    for (int number = 0; number < 4; ++number) {
      gather(comm, rank, 2, number, all->at, all->at + std::size_t(rank) * block);
    }
    barrier(comm);
    my_device().events_done = false;
    all.reset();
    ::usleep(300000);
    EXPECT_EQ(my_device().opened_now(), before + 1) << "copies may still go through it";
    my_device().events_done = true;
    EXPECT_TRUE(eventually([&] { return my_device().opened_now() == before; }));
  });
}

TEST_F(LendingOfRanks, ManyAllocationsComeAndGo) {
  run_processes(2, [](ncclComm_t comm, int rank) {
    for (int number = 0; number < 150; ++number) {
      const Memory all(2 * block);
      for (int twice = 0; twice < 2; ++twice) {
        const auto made = gather(comm, rank, 2, number, all.at, all.at + std::size_t(rank) * block);
        EXPECT_TRUE(made == 1 || made == 2) << made;
      }
    }
  });
}

TEST_F(LendingOfRanks, LastsUntilTheCommunicatorEnds) {
  run_processes(2, [](ncclComm_t comm, int rank) {
    const std::size_t before = my_device().opened_now();
    const Memory all(2 * block);
    FakeDevice& mine = my_device();
    std::shared_ptr<FakeDevice> second;
    ncclComm_t part = nullptr;
    ASSERT_EQ(ncclCommSplit(comm, 0, rank, &part, nullptr), ncclSuccess);
    second = FakeDevices::opened_here().back();
    const std::size_t of_part = second->opened_now();
    const Memory other(2 * block);
    for (int number = 0; number < 4; ++number) {
      gather(part, rank, 2, number, other.at, other.at + std::size_t(rank) * block);
    }
    EXPECT_EQ(second->opened_now(), of_part + 1);
    EXPECT_EQ(ncclCommDestroy(part), ncclSuccess);
    EXPECT_LE(second->opened_now(), of_part);
    EXPECT_GE(mine.opened_now(), before);
  });
}

TEST_F(LendingOfRanks, NothingIsLentToAGraph) {
  run_processes(2, [](ncclComm_t comm, int rank) {
    const Memory all(2 * block);
    float* const mine = all.at + std::size_t(rank) * block;
    for (int number = 0; number < 4; ++number) gather(comm, rank, 2, number, all.at, mine);
    my_device().captures[stream(7)] = 5;
    EXPECT_EQ(gather(comm, rank, 2, 4, all.at, mine), 2) << "a graph would keep the addresses";
    my_device().captures.clear();
    EXPECT_EQ(gather(comm, rank, 2, 5, all.at, mine), 1);
    my_device().destroy_graphs();
  });
}

// A peer's block would come in where one has yet to be read.
TEST_F(LendingOfRanks, AllToAllsInPlaceGoThroughTheScratch) {
  run_processes(2, [](ncclComm_t comm, int rank) {
    const Memory both(2 * block);
    for (int number = 0; number < 5; ++number) {
      for (std::size_t i = 0; i < 2 * block; ++i) both.at[i] = value(rank, number, i);
      my_device().take_notes();
      ASSERT_EQ(ncclAlltoAll(both.at, both.at, block, ncclFloat32, comm, stream(7)), ncclSuccess);
      EXPECT_EQ(copies(my_device().take_notes()), 2) << number;
      for (std::size_t i = 0; i < 2 * block; ++i) {
        const float wanted = value(int(i / block), number, std::size_t(rank) * block + i % block);
        ASSERT_EQ(both.at[i], wanted) << rank << ' ' << number << ' ' << i;
      }
    }
  });
}

TEST(Lending, StopsWaitingForARankThatIsAlwaysLate) {
  FakeDevices devices;
  const auto device = std::make_shared<FakeDevice>(0);
  const auto words = std::make_unique<Consent::Words>();
  Consent consent(*words, 0, 2);
  const auto lending = std::make_shared<Lending>(device, consent, 0, 2, false);
  Lending::longest_wait = std::chrono::milliseconds(40);
  const auto took = [&](int calls) {
    const auto began = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) EXPECT_FALSE(lending->of_call(words.get(), 16, true));
    return std::chrono::steady_clock::now() - began;
  };
  EXPECT_GE(took(4), std::chrono::milliseconds(160)) << "it waits each time";
  EXPECT_LT(took(64), std::chrono::milliseconds(160)) << "and then no more";
  EXPECT_GE(took(4), std::chrono::milliseconds(160)) << "until it tries again";
  EXPECT_LT(took(128), std::chrono::milliseconds(160)) << "after twice as many";
  Lending::longest_wait = std::chrono::microseconds(5000);
}

}  // namespace
}  // namespace busbw::gpu::test

// Peers that read from memory of cuMemCreate in several allocations, whose handles travel by post.
#include <sys/mman.h>

#include <filesystem>

#include "library/tests/gpu/join/lending_of_ranks.h"

namespace busbw::gpu::test {
namespace {

// As one of PyTorch's expandable segments: so many allocations side by side, with more behind them that come later.
struct Segment {
  explicit Segment(std::size_t chunks, std::size_t room = 64) : at(my_device().reserve(room)), room_(room) {
    for (std::size_t i = 0; i < chunks; ++i) map(i);
  }
  ~Segment() {
    for (std::size_t i = 0; i < room_; ++i) unmap(i);
    ::munmap(at, room_ * FakeDevice::chunk);
  }
  void map(std::size_t i) { my_device().map(at + i * FakeDevice::chunk); }
  void unmap(std::size_t i) { my_device().unmap(at + i * FakeDevice::chunk); }
  float* floats(std::size_t offset = 0) { return reinterpret_cast<float*>(at + offset); }
  unsigned char* at;

 private:
  std::size_t room_;
};

std::ptrdiff_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

// A gather in place needs so many copies where the peers know the memory, and the letters may take a call or two.
std::ptrdiff_t settled(ncclComm_t comm, int rank, int ranks, int first, float* all, float* mine) {
  std::ptrdiff_t made = 0;
  for (int number = first; number < first + 4; ++number) made = gather(comm, rank, ranks, number, all, mine);
  return made;
}

TEST_F(LendingOfRanks, MemoryInSeveralAllocationsToo) {
  run_processes(3, [](ncclComm_t comm, int rank) {
    // A block ends in the second allocation.
    Segment segment(3);
    float* const all = segment.floats(FakeDevice::chunk - 4 * 100);
    EXPECT_EQ(gather(comm, rank, 3, 0, all, all + std::size_t(rank) * block), 3);
    EXPECT_EQ(settled(comm, rank, 3, 1, all, all + std::size_t(rank) * block), 2);
  });
}

TEST_F(LendingOfRanks, OneRankOfSuchMemoryAndOneOfOther) {
  run_processes(2, [](ncclComm_t comm, int rank) {
    Segment segment(2);
    const Memory other(2 * block);
    float* const all = rank == 0 ? segment.floats() : other.at;
    EXPECT_EQ(settled(comm, rank, 2, 0, all, all + std::size_t(rank) * block), 1);
  });
}

TEST_F(LendingOfRanks, OtherMemoryAtTheSameAddressIsNotTakenForIt) {
  run_processes(2, [](ncclComm_t comm, int rank) {
    Segment segment(1);
    float* const all = segment.floats();
    float* const mine = all + std::size_t(rank) * block;
    EXPECT_EQ(settled(comm, rank, 2, 0, all, mine), 1);
    for (int time = 1; time < 20; ++time) {
      barrier(comm);
      segment.unmap(0);
      segment.map(0);
      const auto made = gather(comm, rank, 2, 10 * time, all, mine);
      EXPECT_EQ(made, 2) << "new memory goes through the scratch at first";
    }
    EXPECT_EQ(settled(comm, rank, 2, 300, all, mine), 1);
  });
}

TEST_F(LendingOfRanks, AllocationsThatAreFreedAreGivenUp) {
  run_processes(2, [](ncclComm_t comm, int rank) {
    const std::size_t before = my_device().opened_now();
    {
      Segment segment(5);
      EXPECT_EQ(settled(comm, rank, 2, 0, segment.floats(), segment.floats() + std::size_t(rank) * block), 1);
      EXPECT_EQ(my_device().opened_now(), before + 1);
      EXPECT_EQ(my_device().retained(), 5u);
      barrier(comm);
      // Beside the buffer, of the same run.
      segment.unmap(4);
      EXPECT_TRUE(eventually([&] { return my_device().opened_now() == before && my_device().retained() == 0; }));
      barrier(comm);
      EXPECT_EQ(settled(comm, rank, 2, 10, segment.floats(), segment.floats() + std::size_t(rank) * block), 1);
      EXPECT_EQ(my_device().retained(), 4u);
      barrier(comm);
    }
    EXPECT_TRUE(eventually([&] { return my_device().opened_now() == before && my_device().retained() == 0; }));
  });
}

TEST_F(LendingOfRanks, ASegmentThatGrowsIsLentInRuns) {
  run_processes(2, [](ncclComm_t comm, int rank) {
    Segment segment(1);
    for (std::size_t i = 0; i < 40; ++i) {
      if (i > 0) segment.map(i);
      // From the second on, a buffer begins in an allocation that is lent and ends in one that is not.
      float* const all = segment.floats(i * FakeDevice::chunk - (i > 0 ? 4 * 100 : 0));
      EXPECT_EQ(settled(comm, rank, 2, int(i), all, all + std::size_t(rank) * block), 1) << i;
    }
    EXPECT_GE(my_device().retained(), 40u);
  });
}

TEST_F(LendingOfRanks, MemoryWithoutHandlesThatTravelGoesThroughTheScratch) {
  run_processes(2, [](ncclComm_t comm, int rank) {
    Segment segment(1);
    my_device().refuse_chunks = rank == 1;
    EXPECT_EQ(settled(comm, rank, 2, 0, segment.floats(), segment.floats() + std::size_t(rank) * block), 2);
    EXPECT_EQ(my_device().retained(), rank == 0 ? 1u : 0u);
  });
}

TEST_F(LendingOfRanks, NoDescriptorStaysOpen) {
  run_processes(2, [](ncclComm_t comm, int rank) {
    std::ptrdiff_t before = 0;
    for (int time = 0; time < 30; ++time) {
      Segment segment(7);
      EXPECT_EQ(settled(comm, rank, 2, 10 * time, segment.floats(), segment.floats() + std::size_t(rank) * block), 1);
      if (time == 3) before = open_descriptors();
      barrier(comm);
    }
    EXPECT_TRUE(eventually([&] { return open_descriptors() <= before; })) << before << ' ' << open_descriptors();
  });
}

// Rank 0 of two; rank 1 is the test.
class LendingToATest : public ::testing::Test {
 protected:
  std::uint32_t lists(int index, std::size_t chunks) {
    RangeHandle range{};
    range.allocation = chunks * FakeDevice::chunk;
    return peer.put(index, range, chunks);
  }
  void posts(int index, std::uint32_t edition, std::size_t chunks) {
    std::vector<Descriptor> descriptors;
    for (std::size_t i = 0; i < chunks; ++i) {
      descriptors.emplace_back(::memfd_create("a peer's", MFD_CLOEXEC));
      ASSERT_EQ(::ftruncate(descriptors.back().get(), FakeDevice::chunk), 0);
    }
    ASSERT_TRUE(peer.mailbox(0)) << "rank 0 does not know yet that it gets some";
    EXPECT_TRUE(post.offer(*peer.mailbox(0), 1, std::uint64_t(index) << 32 | edition, descriptors));
  }
  std::uint32_t opened(int index) {
    lending->look_after();
    return words->opened[0][1][index].load();
  }

  FakeDevices devices;
  std::shared_ptr<FakeDevice> device = std::make_shared<FakeDevice>(0);
  std::unique_ptr<Consent::Words> words = std::make_unique<Consent::Words>();
  Consent consent{*words, 0, 2}, peer{*words, 1, 2};
  DescriptorPost post;
  std::shared_ptr<Lending> lending = std::make_shared<Lending>(device, consent, 0, 2, false);
};

TEST_F(LendingToATest, OpensWhatItsLetterIsAbout) {
  const std::uint32_t edition = lists(3, 2);
  EXPECT_EQ(opened(3), 0u) << "the letter has yet to come";
  posts(3, edition, 2);
  EXPECT_EQ(opened(3), edition);
  peer.withdraw(3);
  EXPECT_EQ(opened(3), 0u);
}

TEST_F(LendingToATest, KeepsNothingOfLettersThatComeTooLate) {
  lists(0, 2);
  EXPECT_EQ(opened(0), 0u);
  const auto before = open_descriptors();
  for (std::uint32_t time = 0; time < 10; ++time) {
    const std::uint32_t gone = lists(0, 2);
    peer.withdraw(0);
    const std::uint32_t next = lists(0, 2);
    posts(0, gone, 2);
    EXPECT_EQ(opened(0), 0u) << "memory that is gone";
    posts(0, next, 2);
    EXPECT_EQ(opened(0), next);
    peer.withdraw(0);
  }
  EXPECT_EQ(opened(0), 0u);
  EXPECT_LE(open_descriptors(), before);
}

TEST_F(LendingToATest, TakesNoLetterWithOtherContents) {
  const std::uint32_t edition = lists(0, 3);
  EXPECT_EQ(opened(0), 0u);
  posts(0, edition, 2);
  EXPECT_EQ(opened(0), 0u);
  posts(70, edition, 2);
  posts(-1, edition, 2);
  EXPECT_EQ(opened(0), 0u);
}

TEST_F(LendingToATest, ReleasesItsOwnAtTheEnd) {
  unsigned char* const at = device->reserve(2);
  device->map(at);
  device->map(at + FakeDevice::chunk);
  Lending::longest_wait = std::chrono::microseconds(1);
  EXPECT_FALSE(lending->of_call(at, 100, true));
  Lending::longest_wait = std::chrono::microseconds(5000);
  EXPECT_EQ(device->retained(), 2u);
  lending->close();
  EXPECT_EQ(device->retained(), 0u);
}

}  // namespace
}  // namespace busbw::gpu::test

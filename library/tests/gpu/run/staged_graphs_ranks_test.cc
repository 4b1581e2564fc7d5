// Staged copies that come again and again: by graphs, with the data of each call, and only for the memory that the
// graph was recorded with.
#include "library/gpu/run/staged_graphs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "library/tests/gpu/fake_devices.h"
#include "library/tests/gpu/ranks.h"

namespace busbw::gpu::test {
namespace {

constexpr std::size_t block = 1000;

class StagedGraphsOfRanks : public ::testing::Test {
 protected:
  StagedGraphsOfRanks() { ::setenv("BUSBW_ALGORITHM", "staged/copy", 1); }
  ~StagedGraphsOfRanks() override { ::unsetenv("BUSBW_ALGORITHM"); }

  // A rank's buffers, and what its device was asked for in a call with them.
  struct Gather {
    std::vector<float> mine = std::vector<float>(block);
    std::vector<float> all = std::vector<float>(2 * block);

    std::vector<std::string> call(ncclComm_t comm, int rank, int number) {
      my_device().take_notes();
      std::iota(mine.begin(), mine.end(), float(1000000 * rank + 1000 * number));
      std::fill(all.begin(), all.end(), -1.0f);
      EXPECT_EQ(ncclAllGather(mine.data(), all.data(), block, ncclFloat32, comm, stream(7)), ncclSuccess)
          << ncclGetLastError(comm);
      for (std::size_t i = 0; i < all.size(); ++i) {
        const float expected = float(1000000 * (i / block) + std::size_t(1000 * number) + i % block);
        EXPECT_EQ(all[i], expected) << "rank " << rank << ", call " << number << ", element " << i;
        if (all[i] != expected) break;
      }
      return my_device().take_notes();
    }
  };
  static bool any(const std::vector<std::string>& notes, const std::string& beginning) {
    return std::any_of(notes.begin(), notes.end(), [&](const auto& note) { return note.starts_with(beginning); });
  }

  FakeDevices devices_;
};

TEST_F(StagedGraphsOfRanks, AreRecordedAtTheThirdCallAndLaunchedFromThenOn) {
  run_processes(2, [](ncclComm_t comm, int rank) {
    Gather gather;
    for (int number = 0; number < 6; ++number) {
      const std::vector<std::string> notes = gather.call(comm, rank, number);
      EXPECT_EQ(any(notes, "record graph"), number == 2) << number;
      EXPECT_EQ(any(notes, "launch graph 1 s7"), number >= 2) << number;
    }
    Gather other;
    EXPECT_FALSE(any(other.call(comm, rank, 6), "launch graph")) << "other buffers are another call";
    EXPECT_TRUE(any(gather.call(comm, rank, 7), "launch graph 1"));
  });
}

TEST_F(StagedGraphsOfRanks, AreNotThoseOfMemoryThatCameAgainAtTheSameAddress) {
  run_processes(2, [](ncclComm_t comm, int rank) {
    Gather gather;
    for (int number = 0; number < 4; ++number) gather.call(comm, rank, number);
    my_device().allocation_number = 2;
    for (int number = 4; number < 8; ++number) {
      const std::vector<std::string> notes = gather.call(comm, rank, number);
      EXPECT_FALSE(any(notes, "launch graph 1 ")) << number;
      EXPECT_EQ(any(notes, "launch graph 2 "), number >= 6) << number;
    }
    my_device().allocation_number = 0;
    EXPECT_FALSE(any(gather.call(comm, rank, 8), "launch graph")) << "the driver does not say what memory it is";
  });
}

TEST_F(StagedGraphsOfRanks, AreDoneWithoutWhereTheDriverRecordsNone) {
  run_processes(2, [](ncclComm_t comm, int rank) {
    my_device().refuse_graphs = true;
    Gather gather;
    for (int number = 0; number < 5; ++number) {
      const std::vector<std::string> notes = gather.call(comm, rank, number);
      EXPECT_EQ(any(notes, "record graph"), number == 2) << "it is tried once";
      EXPECT_FALSE(any(notes, "launch graph"));
    }
  });
  devices_.prepare = [](FakeDevice& device) { device.keeps_graphs = false; };
  run_processes(2, [](ncclComm_t comm, int rank) {
    Gather gather;
    for (int number = 0; number < 5; ++number) EXPECT_FALSE(any(gather.call(comm, rank, number), "record graph"));
  });
}

// One copy for a piece then puts the own block into both places.
TEST_F(StagedGraphsOfRanks, TakeSlimKernelsWhereAskedForAndThere) {
  for (const bool asked : {true, false}) {
    for (const bool there : {true, false}) {
      ::setenv("BUSBW_SLIM", asked ? "1" : "0", 1);
      devices_.prepare = [there](FakeDevice& device) { device.has_slim = there; };
      run_processes(2, [asked, there](ncclComm_t comm, int rank) {
        Gather gather;
        for (int number = 0; number < 5; ++number) {
          const std::vector<std::string> notes = gather.call(comm, rank, number);
          EXPECT_EQ(any(notes, "slim copy"), asked && there) << number;
          const auto copies = std::count_if(notes.begin(), notes.end(), [](const auto& note) {
            return note.starts_with("copy ") || note.starts_with("slim copy");
          });
          EXPECT_EQ(copies, asked && there ? 2 : 3) << "to the offer and to the own place, and from the peer";
        }
        std::vector<float> sums(block);
        my_device().take_notes();
        EXPECT_EQ(ncclAllReduce(gather.mine.data(), sums.data(), block, ncclFloat32, ncclSum, comm, stream(7)),
                  ncclSuccess);
        const std::vector<std::string> notes = my_device().take_notes();
        EXPECT_EQ(any(notes, "slim add"), asked && there);
        EXPECT_EQ(any(notes, "add"), !(asked && there));
      });
    }
  }
  ::unsetenv("BUSBW_SLIM");
}

TEST_F(StagedGraphsOfRanks, AreRightWhereSlimKernelsRefuseAnAddress) {
  ::setenv("BUSBW_SLIM", "1", 1);
  devices_.prepare = [](FakeDevice& device) { device.has_slim = device.refuse_slim = true; };
  run_processes(2, [](ncclComm_t comm, int rank) {
    Gather gather;
    for (int number = 0; number < 5; ++number) EXPECT_FALSE(any(gather.call(comm, rank, number), "slim copy"));
  });
  ::unsetenv("BUSBW_SLIM");
}

TEST(StagedGraphs, ForgetTheOldestCalls) {
  FakeDevices devices;
  const auto device = std::make_shared<FakeDevice>(0);
  const Choice choice{.accelerated = true, .channels = 1};
  std::vector<float> buffer(2000);
  const auto ask = [&](StagedGraphs& graphs, std::size_t count) {
    const Call call{.collective = Collective::all_gather,
                    .type = ncclFloat32,
                    .count = count,
                    .send = buffer.data(),
                    .recv = buffer.data()};
    return graphs.of(call, choice, [](DeviceStream) {});
  };
  {
    StagedGraphs graphs(device);
    for (int time = 0; time < 3; ++time) ask(graphs, 1);
    for (std::size_t count = 2; count <= 512; ++count) EXPECT_EQ(ask(graphs, count), nullptr);
    EXPECT_NE(ask(graphs, 1), nullptr) << "there is room for so many";
    for (std::size_t count = 513; count <= 1024; ++count) ask(graphs, count);
    const std::vector<std::string> notes = device->take_notes();
    EXPECT_NE(std::find(notes.begin(), notes.end(), "destroy graph 1"), notes.end());
    EXPECT_EQ(ask(graphs, 1), nullptr) << "it has to come again";
    for (int time = 0; time < 2; ++time) ask(graphs, 1);
  }
  const std::vector<std::string> notes = device->take_notes();
  EXPECT_NE(std::find(notes.begin(), notes.end(), "destroy graph 2"), notes.end()) << "at the end, what is left";
}

}  // namespace
}  // namespace busbw::gpu::test

// BUSBW_CHECK=1 on ranks over our CPU library, with kernels that are right or that a test makes wrong.
#include "library/gpu/check/ledger.h"

#include <atomic>
#include <cmath>

#include "library/tests/gpu/ranks.h"

namespace busbw::gpu::test {
namespace {

constexpr std::size_t count = 256;

float value(int rank, std::size_t i) { return float(rank + 1) * float(i % 7); }

// What a kernel of ours writes, from what the ranks of these tests put in; `spoil` changes it then.
using Spoil = std::function<void(const Launch&, float* recv)>;
void run_kernel(const Launch& launch, const Spoil& spoil) {
  const KernelArguments& a = launch.arguments;
  auto* const recv = static_cast<float*>(a.recv);
  if (kernel_kinds[std::size_t(launch.kind)].collective == Collective::all_gather) {
    const std::size_t block = a.count / sizeof(float);
    for (std::size_t i = 0; i < block * std::size_t(a.ranks); ++i) recv[i] = value(int(i / block), i % block);
  } else {
    for (std::size_t i = 0; i < a.count; ++i) {
      recv[i] = 0;
      for (int rank = 0; rank < a.ranks; ++rank) recv[i] += value(rank, i);
    }
  }
  if (spoil) spoil(launch, recv);
}

class Check : public ::testing::Test {
 protected:
  Check() {
    ::setenv("BUSBW_CHECK", "1", 1);
    Ledger::of_this_process().clear();
    devices.prepare = [this](FakeDevice& device) {
      device.kernel = [this](const Launch& launch) { run_kernel(launch, spoil); };
    };
  }
  ~Check() override { ::unsetenv("BUSBW_CHECK"); }
  std::string summary() { return Ledger::of_this_process().summary(); }
  static std::vector<float> input(int rank, std::size_t elements = count) {
    std::vector<float> values(elements);
    for (std::size_t i = 0; i < elements; ++i) values[i] = value(rank, i);
    return values;
  }
  static ncclResult_t all_reduce(ncclComm_t comm, const std::vector<float>& in, std::vector<float>& out,
                                 std::uintptr_t on = 7) {
    return ncclAllReduce(in.data(), out.data(), in.size(), ncclFloat32, ncclSum, comm, stream(on));
  }

  FakeDevices devices;
  Spoil spoil;
};

TEST_F(Check, SaysThatAllAgree) {
  run_threads(2, [&](ncclComm_t comm, int rank) {
    const std::vector<float> in = input(rank);
    std::vector<float> out(2 * count);
    ASSERT_EQ(all_reduce(comm, in, out), ncclSuccess) << ncclGetLastError(comm);
    EXPECT_EQ(out[5], 15);
    ASSERT_EQ(ncclAllGather(in.data(), out.data(), count, ncclFloat32, comm, stream(7)), ncclSuccess);
    EXPECT_EQ(out[count + 5], 10);
  });
  EXPECT_TRUE(contains(summary(), "busbw took 4 calls and compared 4 with NCCL: all agree. NCCL did 0 calls."))
      << summary();
}

TEST_F(Check, NamesAWrongResult) {
  spoil = [](const Launch& launch, float* recv) {
    if (launch.arguments.rank == 1) recv[37] += 1;
  };
  run_threads(2, [&](ncclComm_t comm, int rank) {
    const std::vector<float> in = input(rank);
    std::vector<float> out(count);
    ASSERT_EQ(all_reduce(comm, in, out), ncclSuccess);
    EXPECT_EQ(out[37], rank == 1 ? 7 : 6) << "the program gets our result";
  });
  EXPECT_TRUE(contains(summary(),
                       "compared 2 with NCCL: 1 DIFFER, the first: all_reduce sum of 256 float, call 1 on "
                       "rank 1 of communicator "))
      << summary();
  EXPECT_TRUE(contains(summary(), "element 37 is 7 by busbw (")) << summary();
  EXPECT_TRUE(contains(summary(), ") and 6 by NCCL")) << summary();
}

TEST_F(Check, NamesAWrongByteThatWasMoved) {
  spoil = [](const Launch& launch, float* recv) {
    // The next float: no rounding excuses it.
    if (launch.arguments.rank == 0) recv[count + 5] = std::nextafter(recv[count + 5], 100.0f);
  };
  run_threads(2, [&](ncclComm_t comm, int rank) {
    const std::vector<float> in = input(rank);
    std::vector<float> out(2 * count);
    ASSERT_EQ(ncclAllGather(in.data(), out.data(), count, ncclFloat32, comm, stream(7)), ncclSuccess);
  });
  EXPECT_TRUE(contains(summary(), "1 DIFFER, the first: all_gather of 256 float, call 1 on rank 0")) << summary();
  EXPECT_TRUE(contains(summary(), "element 261 is 10.000001 by busbw")) << summary();
}

TEST_F(Check, TakesTheInputOfACallInPlaceBeforeItIsGone) {
  run_threads(2, [&](ncclComm_t comm, int rank) {
    std::vector<float> both = input(rank);
    ASSERT_EQ(all_reduce(comm, both, both), ncclSuccess);
    EXPECT_EQ(both[5], 15);
  });
  EXPECT_TRUE(contains(summary(), "compared 2 with NCCL: all agree")) << summary();
}

TEST_F(Check, KeepsEachResultOfAGroupUntilNcclHasDoneIt) {
  std::atomic<int> launches{0};
  spoil = [&](const Launch& launch, float* recv) {
    // The first of two into one buffer, which the second makes right again.
    if (launch.arguments.rank == 0 && launches++ == 0) recv[3] = -1;
  };
  run_threads(2, [&](ncclComm_t comm, int rank) {
    const std::vector<float> in = input(rank);
    std::vector<float> out(count), reduced(count);
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    ASSERT_EQ(all_reduce(comm, in, out, 8), ncclSuccess);
    ASSERT_EQ(ncclReduce(in.data(), reduced.data(), count, ncclFloat32, ncclSum, 0, comm, stream(9)), ncclSuccess);
    ASSERT_EQ(all_reduce(comm, in, out, 8), ncclSuccess);
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(comm);
    EXPECT_EQ(out[3], 9);
    // Only behind what compares may the next call use the memory for it.
    const std::vector<std::string> notes = FakeDevices::opened_here().back()->take_notes();
    EXPECT_EQ(notes.at(notes.size() - 2), "call s8");
    EXPECT_EQ(notes.back(), "record e1 s8");
  });
  EXPECT_TRUE(contains(summary(), "took 4 calls and compared 4 with NCCL: 1 DIFFER")) << summary();
  EXPECT_TRUE(contains(summary(), "element 3 is -1 by busbw")) << summary();
  EXPECT_TRUE(contains(summary(), "NCCL did 2 calls (2: ncclReduce is always NCCL's)")) << summary();
}

TEST_F(Check, CountsWhatIsCapturedAndLeavesTheGraphAsItIs) {
  run_threads(2, [&](ncclComm_t comm, int rank) {
    const std::vector<float> in = input(rank);
    std::vector<float> out(count);
    FakeDevice& device = *FakeDevices::opened_here().back();
    device.captures = {{stream(8), 100}};
    device.take_notes();
    ASSERT_EQ(all_reduce(comm, in, out, 8), ncclSuccess);
    for (const std::string& note : device.take_notes()) EXPECT_FALSE(contains(note, "copy")) << note;
  });
  EXPECT_TRUE(contains(summary(), "took 2 calls and compared none. Not compared: 2 (2: captured in a graph)."))
      << summary();
}

TEST_F(Check, SaysWhyCallsWentToNccl) {
  run_threads(2, [&](ncclComm_t comm, int) {
    ASSERT_EQ(ncclBroadcast(nullptr, nullptr, 0, ncclInt64, 0, comm, stream(7)), ncclSuccess);
  });
  EXPECT_TRUE(contains(summary(), "took 0 calls and compared none. NCCL did 2 calls (2: broadcast: ")) << summary();
}

TEST_F(Check, ComparesAPartOfAVectorThatIsTooLong) {
  constexpr std::size_t many = std::size_t(8) << 20;
  spoil = [](const Launch& launch, float* recv) {
    if (launch.arguments.rank == 0)
      for (std::size_t i = 0; i < launch.arguments.count; ++i) recv[i] = -float(i);
  };
  run_threads(2, [&](ncclComm_t comm, int rank) {
    const std::vector<float> in = input(rank, many);
    std::vector<float> out(many);
    ASSERT_EQ(all_reduce(comm, in, out), ncclSuccess);
  });
  EXPECT_TRUE(contains(summary(), "compared 2 with NCCL: 1 DIFFER")) << summary();
  EXPECT_TRUE(contains(summary(), "(a part of each vector in 1 of them)")) << summary();
  std::size_t element = 0;
  double ours = 0, theirs = 0;
  const std::size_t at = summary().find("element ");
  ASSERT_NE(at, std::string::npos);
  ASSERT_EQ(std::sscanf(summary().c_str() + at, "element %zu is %lf by busbw", &element, &ours), 2);
  ASSERT_EQ(std::sscanf(summary().c_str() + summary().find(" and ", at), " and %lf by NCCL", &theirs), 1);
  EXPECT_EQ(ours, -double(element)) << "the element's number is that of the whole vector";
  EXPECT_EQ(theirs, 3.0 * double(element % 7));
}

TEST_F(Check, LeavesAGroupOfTooManyCallsUnchecked) {
  constexpr int calls = 80000;  // shares of the memory that hold no vector
  run_threads(2, [&](ncclComm_t comm, int rank) {
    const std::vector<float> in = input(rank, 16);
    std::vector<float> out(16);
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    for (int i = 0; i < calls; ++i) ASSERT_EQ(all_reduce(comm, in, out), ncclSuccess);
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  });
  EXPECT_TRUE(contains(summary(), "compared none. Not compared: 160000 (160000: a group of too many calls)"))
      << summary();
}

TEST_F(Check, ComparesNothingOnceTheCommunicatorIsStopped) {
  spoil = [](const Launch&, float* recv) { recv[0] = 99; };
  run_threads(2, [&](ncclComm_t comm, int rank) {
    const std::vector<float> in = input(rank);
    std::vector<float> out(count);
    FakeDevice& device = *FakeDevices::opened_here().back();
    device.hold_calls = true;
    ASSERT_EQ(all_reduce(comm, in, out), ncclSuccess);
    if (rank == 0) {
      EXPECT_EQ(ncclCommRevoke(comm, 0), ncclSuccess);
      device.run_held_calls();
    } else {
      device.run_held_calls();
    }
  });
  EXPECT_TRUE(contains(summary(), "compared 1 with NCCL: 1 DIFFER")) << summary();
  EXPECT_TRUE(contains(summary(), "Not compared: 1 (1: its communicator was stopped)")) << summary();
}

// Preloaded under a program as any other, which here finds no GPU. (With the address sanitizer it comes before that
// one's runtime, which would refuse it.)
TEST(CheckOfAProgram, EndsWithTheLine) {
  const std::string command = text(
      "ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0 BUSBW_CHECK=1 "
      "BUSBW_REAL_NCCL= LD_PRELOAD=%s %s 2>&1 >/dev/null",
      BUSBW_TEST_GPU_LIBRARY, BUSBW_TEST_NCCL_USER);
  FILE* pipe = ::popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string output;
  char line[4096];
  while (std::fgets(line, sizeof line, pipe)) output += line;
  ::pclose(pipe);
  const std::size_t at = output.find("busbw check: pid ");
  ASSERT_NE(at, std::string::npos) << output;
  EXPECT_TRUE(contains(output.substr(at), "busbw took 0 calls and compared none. NCCL did ")) << output;
  EXPECT_EQ(output.find('\n', at), output.size() - 1) << "it is the last line: " << output;
}

TEST_F(Check, ARankWithoutItIsNotJoined) {
  const ncclUniqueId id = new_id();
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.push_back(start_process([&] {
      if (rank == 1) ::unsetenv("BUSBW_CHECK");
      run_rank(id, 2, rank, [](ncclComm_t comm, int) {
        EXPECT_TRUE(contains(explain(comm, Collective::all_reduce, 256), "BUSBW_CHECK"))
            << explain(comm, Collective::all_reduce, 256);
      });
    }));
  }
  for (const pid_t rank : ranks) EXPECT_EQ(wait_for(rank), 0);
}

}  // namespace
}  // namespace busbw::gpu::test

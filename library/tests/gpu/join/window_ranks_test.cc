// Symmetric windows: ranks reach each other's, calls whose output lies in one go by copy engines, and what cannot be is
// left to NCCL on all ranks alike.
#include <fstream>
#include <numeric>

#include "library/tests/gpu/ranks.h"

namespace busbw::gpu::test {
namespace {

using Notes = std::vector<std::string>;

constexpr std::size_t window_bytes = 1 << 16;
constexpr std::size_t offset = 4096;  // of the output in its window
constexpr std::size_t block = 600;    // elements of int32 that a rank has for each other

// Every call that copy engines can do goes to them.
struct Forced {
  Forced() { ::setenv("BUSBW_ALGORITHM", "direct/copy", 1); }
  ~Forced() { ::unsetenv("BUSBW_ALGORITHM"); }
};

// A rank's window, with an output in it.
class WithWindow {
 public:
  explicit WithWindow(ncclComm_t of) : comm(of), memory(static_cast<char*>(my_device().allocate(window_bytes))) {
    const ncclResult_t result = ncclCommWindowRegister(comm, memory, window_bytes, &handle, NCCL_WIN_COLL_SYMMETRIC);
    EXPECT_EQ(result, ncclSuccess) << ncclGetLastError(comm);
    output = reinterpret_cast<std::int32_t*>(memory + offset);
  }
  ~WithWindow() {
    deregister();
    my_device().release(memory);
  }
  WithWindow(const WithWindow&) = delete;
  WithWindow& operator=(const WithWindow&) = delete;
  void deregister() {
    if (!handle) return;
    EXPECT_EQ(ncclCommWindowDeregister(comm, handle), ncclSuccess) << ncclGetLastError(comm);
    handle = nullptr;
  }
  std::string way(Collective collective, const void* send) const {
    return explain(comm, collective, block, ncclInt32, ncclSum, send, output);
  }

  ncclComm_t comm;
  char* memory;
  ncclWindow_t handle = nullptr;
  std::int32_t* output = nullptr;
};

std::int32_t value(int rank, int of, std::size_t i) { return 1000000 * rank + 10000 * of + std::int32_t(i); }

void check_gather(const WithWindow& window, int rank, int ranks, bool in_place) {
  std::vector<std::int32_t> apart(block);
  std::int32_t* const send = in_place ? window.output + std::size_t(rank) * block : apart.data();
  std::fill_n(window.output, block * std::size_t(ranks), -1);
  for (std::size_t i = 0; i < block; ++i) send[i] = value(rank, 0, i);
  EXPECT_EQ(window.way(Collective::all_gather, send), "direct/copy");
  ASSERT_EQ(ncclAllGather(send, window.output, block, ncclInt32, window.comm, stream(7)), ncclSuccess)
      << ncclGetLastError(window.comm);
  for (int from = 0; from < ranks; ++from) {
    for (std::size_t i = 0; i < block; ++i) {
      ASSERT_EQ(window.output[std::size_t(from) * block + i], value(from, 0, i)) << from << ' ' << i;
    }
  }
}

void check_exchange(const WithWindow& window, int rank, int ranks) {
  std::vector<std::int32_t> send(block * std::size_t(ranks));
  for (int to = 0; to < ranks; ++to) {
    for (std::size_t i = 0; i < block; ++i) send[std::size_t(to) * block + i] = value(rank, to, i);
  }
  EXPECT_EQ(window.way(Collective::all_to_all, send.data()), "direct/copy");
  ASSERT_EQ(ncclAlltoAll(send.data(), window.output, block, ncclInt32, window.comm, stream(7)), ncclSuccess);
  for (int from = 0; from < ranks; ++from) {
    for (std::size_t i = 0; i < block; ++i) {
      ASSERT_EQ(window.output[std::size_t(from) * block + i], value(from, rank, i)) << from << ' ' << i;
    }
  }
}

void check_broadcast(const WithWindow& window, int rank, int root, bool in_place) {
  std::vector<std::int32_t> apart(block);
  std::int32_t* const send = in_place ? window.output : apart.data();
  std::fill_n(window.output, block, -1);
  for (std::size_t i = 0; i < block; ++i) send[i] = value(rank, 3, i);
  ASSERT_EQ(ncclBroadcast(send, window.output, block, ncclInt32, root, window.comm, stream(7)), ncclSuccess);
  for (std::size_t i = 0; i < block; ++i) ASSERT_EQ(window.output[i], value(root, 3, i)) << i;
}

void check_all(ncclComm_t comm, int rank, int ranks) {
  const WithWindow window(comm);
  for (int round = 0; round < 3; ++round) {
    check_gather(window, rank, ranks, round == 1);
    check_exchange(window, rank, ranks);
    for (int root = 0; root < ranks; ++root) check_broadcast(window, rank, root, round == 1);
  }
  EXPECT_TRUE(my_device().launches.empty());
  barrier(comm);
}

TEST(Windows, AreWrittenByThreads) {
  const Forced forced;
  FakeDevices devices;
  run_threads(4, [](ncclComm_t comm, int rank) { check_all(comm, rank, 4); });
}

TEST(Windows, AreWrittenByProcessesThatOpenThem) {
  const Forced forced;
  FakeDevices devices;
  run_processes(3, [](ncclComm_t comm, int rank) { check_all(comm, rank, 3); });
}

TEST(Windows, AreWrittenByProcessesThatGotTheirDescriptors) {
  const Forced forced;
  FakeDevices devices;
  devices.prepare = [](FakeDevice& device) { device.ranges_by_descriptor = true; };
  run_processes(8, [](ncclComm_t comm, int rank) { check_all(comm, rank, 8); });
}

TEST(Windows, HoldWhatLiesWhollyInThem) {
  const Forced forced;
  FakeDevices devices;
  run_threads(2, [](ncclComm_t comm, int) {
    const WithWindow window(comm);
    std::int32_t apart[4] = {};
    const auto way = [&](std::size_t at, std::size_t elements, Collective collective = Collective::broadcast) {
      return explain(comm, collective, elements, ncclInt32, ncclSum, apart, window.memory + at);
    };
    EXPECT_EQ(way(0, window_bytes / 4), "direct/copy");
    EXPECT_EQ(way(window_bytes - 4, 1), "direct/copy");
    for (const std::string& not_in_it : {way(0, window_bytes / 4 + 1), way(window_bytes - 4, 2), way(window_bytes, 1),
                                         way(window_bytes - 8, 2, Collective::all_gather)}) {
      EXPECT_TRUE(contains(not_in_it, "nccl: ") && contains(not_in_it, "no symmetric window")) << not_in_it;
    }
    EXPECT_TRUE(contains(explain(comm, Collective::broadcast, 1, ncclInt32), "no symmetric window"));
    barrier(comm);
  });
}

TEST(Windows, AnAllToAllThatOverlapsItsInputDoesNotGoThroughThem) {
  const Forced forced;
  FakeDevices devices;
  run_threads(2, [](ncclComm_t comm, int) {
    const WithWindow window(comm);
    const std::int32_t* out = window.output;
    for (const std::int32_t* send : {out, out + 1, out + 2 * block - 1, out - 2 * block + 1}) {
      EXPECT_TRUE(contains(window.way(Collective::all_to_all, send), "overlaps")) << send - out;
    }
    for (const std::int32_t* send : {out + 2 * block, out - 2 * block}) {
      EXPECT_EQ(window.way(Collective::all_to_all, send), "direct/copy") << send - out;
    }
    barrier(comm);
  });
}

TEST(Windows, HoldAnAllReduceWhereBothOfItsBuffersLieInThem) {
  const std::string table = ::testing::TempDir() + "/calls-in-windows";
  std::ofstream(table) << "busbw-table 1\nall_reduce calls=windows two_shot/simple\nall_reduce nccl\n";
  ::setenv("BUSBW_TABLE", table.c_str(), 1);
  FakeDevices devices;
  run_threads(2, [](ncclComm_t comm, int) {
    const WithWindow window(comm);
    std::vector<std::int32_t> apart(block);
    const std::int32_t* const out = window.output;
    EXPECT_TRUE(contains(window.way(Collective::all_reduce, out), "two_shot/simple"));
    EXPECT_TRUE(contains(window.way(Collective::all_reduce, out + block), "two_shot/simple"));
    EXPECT_TRUE(contains(window.way(Collective::all_reduce, apart.data()), "nccl: "));
    EXPECT_TRUE(
        contains(explain(comm, Collective::all_reduce, block, ncclInt32, ncclSum, out, apart.data()), "nccl: "));
    barrier(comm);
  });
  ::unsetenv("BUSBW_TABLE");
}

TEST(Windows, EndWithTheirRegistration) {
  const Forced forced;
  FakeDevices devices;
  run_processes(2, [](ncclComm_t comm, int rank) {
    WithWindow window(comm);
    check_gather(window, rank, 2, false);
    EXPECT_EQ(my_device().opened_now(), 2u);  // the peer's scratch and its window
    window.deregister();
    EXPECT_EQ(my_device().opened_now(), 1u);
    EXPECT_TRUE(contains(window.way(Collective::all_gather, nullptr), "no symmetric window"));
    barrier(comm);
  });
}

TEST(Windows, OfOneRegistrationOnlyAreNoPromise) {
  const Forced forced;
  FakeDevices devices;
  run_threads(2, [](ncclComm_t comm, int) {
    char* memory = static_cast<char*>(my_device().allocate(window_bytes));
    ncclWindow_t handle = nullptr;
    ASSERT_EQ(ncclCommWindowRegister(comm, memory, window_bytes, &handle, NCCL_WIN_DEFAULT), ncclSuccess);
    EXPECT_TRUE(contains(explain(comm, Collective::broadcast, 8, ncclInt32, ncclSum, nullptr, memory), "nccl: "));
    EXPECT_EQ(ncclCommWindowDeregister(comm, handle), ncclSuccess);
    my_device().release(memory);
  });
}

// What is refused on one rank is so on all, and NCCL goes on.
void check_left_to_nccl(const std::function<void(FakeDevice&)>& prepare, void (*run)(int ranks, const RankBody& body)) {
  const Forced forced;
  FakeDevices devices;
  std::atomic<int> opened{0};
  devices.prepare = [&](FakeDevice& device) {
    device.ranges_by_descriptor = true;
    if (opened++ == 0) prepare(device);
  };
  run(2, [](ncclComm_t comm, int rank) {
    const WithWindow window(comm);
    EXPECT_TRUE(contains(window.way(Collective::all_gather, nullptr), "no symmetric window"));
    const std::int32_t mine = rank + 1;
    ASSERT_EQ(ncclAllGather(&mine, window.output, 1, ncclInt32, comm, nullptr), ncclSuccess);
    EXPECT_EQ(window.output[0] + 10 * window.output[1], 21);
    barrier(comm);
  });
}

TEST(Windows, ThatOneRankCannotReachAreLeftToNccl) {
  check_left_to_nccl([](FakeDevice& device) { device.refuse_windows = true; }, run_threads);
}

TEST(Windows, ThatOneRankCannotShareAreLeftToNccl) {
  check_left_to_nccl([](FakeDevice& device) { device.refuse_shares = true; }, run_threads);
}

TEST(Windows, OfAGroupAreOpenedAtItsEnd) {
  const Forced forced;
  FakeDevices devices;
  FakeDevices::opened_here().clear();
  ncclComm_t comms[2] = {};
  ASSERT_EQ(ncclCommInitAll(comms, 2, nullptr), ncclSuccess) << ncclGetLastError(nullptr);
  char* memory[2];
  ncclWindow_t handles[2] = {};
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int rank = 0; rank < 2; ++rank) {
    memory[rank] = static_cast<char*>(FakeDevices::opened_here()[std::size_t(rank)]->allocate(window_bytes));
    ASSERT_EQ(ncclCommWindowRegister(comms[rank], memory[rank], window_bytes, &handles[rank], NCCL_WIN_COLL_SYMMETRIC),
              ncclSuccess);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(explain(comms[rank], Collective::broadcast, 8, ncclInt32, ncclSum, nullptr, memory[rank]), "direct/copy");
    EXPECT_EQ(ncclCommWindowDeregister(comms[rank], handles[rank]), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(comms[rank]), ncclSuccess);
    FakeDevices::opened_here()[std::size_t(rank)]->release(memory[rank]);
  }
}

// In the stream of the call between two meetings; what stays on the rank beside them.
TEST(Windows, CopiesStandBetweenTwoMeetings) {
  const Forced forced;
  FakeDevices devices;
  run_threads(2, [](ncclComm_t comm, int rank) {
    const WithWindow window(comm);
    std::vector<std::int32_t> send(block);
    my_device().take_notes();
    ASSERT_EQ(ncclAllGather(send.data(), window.output, block, ncclInt32, comm, stream(7)), ncclSuccess);
    EXPECT_EQ(my_device().take_notes(), (Notes{"record e3 s7", "wait s1003 e3", "copy 2400 s1003", "record e4 s1003",
                                               "meet s7", "copy 2400 s7", "wait s7 e4", "meet s7", "record e1 s7"}));
    ASSERT_EQ(ncclBroadcast(send.data(), window.output, block, ncclInt32, 1, comm, stream(7)), ncclSuccess);
    const Notes root{"record e3 s7", "wait s1003 e3", "copy 2400 s1003", "record e4 s1003", "meet s7",
                     "copy 2400 s7", "wait s7 e4",    "meet s7",         "record e1 s7"};
    EXPECT_EQ(my_device().take_notes(), rank == 1 ? root : (Notes{"meet s7", "meet s7", "record e1 s7"}));
    barrier(comm);
  });
}

// Two captures that are open at once do not meet in a stream of ours.
TEST(Windows, EachCaptureHasASideStreamOfItsOwn) {
  const Forced forced;
  FakeDevices devices;
  run_threads(2, [](ncclComm_t comm, int) {
    const WithWindow window(comm);
    std::vector<std::int32_t> send(block);
    const auto side_of_call = [&](std::uintptr_t on) {
      my_device().take_notes();
      EXPECT_EQ(ncclAllGather(send.data(), window.output, block, ncclInt32, comm, stream(on)), ncclSuccess);
      const Notes notes = my_device().take_notes();
      for (const std::string& note : notes) {
        if (note.starts_with("wait s1")) return note;
      }
      return std::string("none");
    };
    my_device().captures[stream(7)] = 1;
    my_device().captures[stream(8)] = 2;
    EXPECT_EQ(side_of_call(7), "wait s1003 e3");
    my_device().captures[stream(1003)] = 1;  // it takes part in what it waits for
    EXPECT_EQ(side_of_call(7), "wait s1003 e3");
    const std::string second = side_of_call(8);
    EXPECT_NE(second, "wait s1003 e3");
    EXPECT_NE(second, "none");
    EXPECT_EQ(side_of_call(9), second);  // which captures nothing here
    barrier(comm);
  });
}

// Streams of a rank's exchanges: two when the communicator is made, one for copies, then two for the window.
constexpr std::uintptr_t second_exchange_of_a_window = 1005;

TEST(LateRank, ThatDoesNotLearnWhetherAWindowIsReachedStopsTheCommunicator) {
  const Forced forced;
  FakeDevices devices;
  ::setenv("BUSBW_GPU_TIMEOUT", "0.2", 1);
  std::atomic<int> opened{0};
  devices.prepare = [&](FakeDevice& device) { device.stuck = stream(opened++ == 0 ? second_exchange_of_a_window : 0); };
  std::atomic<int> in_doubt{0};
  run_threads(2, [&](ncclComm_t comm, int) {
    const WithWindow window(comm);
    if (my_device().stuck == stream(0)) return;
    ++in_doubt;
    EXPECT_EQ(ncclAllGather(window.output, window.output, 1, ncclInt32, comm, stream(7)), ncclRemoteError);
    EXPECT_TRUE(contains(ncclGetLastError(comm), "did not learn whether all ranks can write"))
        << ncclGetLastError(comm);
  });
  EXPECT_EQ(in_doubt, 1);
  ::unsetenv("BUSBW_GPU_TIMEOUT");
}

}  // namespace
}  // namespace busbw::gpu::test

// A rank that ends when it has done its calls is missed by nobody who needs it no more, as with NCCL.
#include <chrono>

#include "library/gpu/api/registry.h"
#include "library/gpu/watch/watch_place.h"
#include "library/tests/gpu/ranks.h"

namespace busbw::gpu::test {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

ncclResult_t all_reduce(ncclComm_t comm) {
  static float value = 0;
  return ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, stream(7));
}

// What the watch of rank 1 of 4 makes of what rank 0 tells it, at times that the test says.
struct OfOneRank {
  OfOneRank() {
    place.rank = 1;
    place.ranks = 4;
    place.health = std::make_shared<Health>();
    place.health->set_abort_word(&word);
    place.complete = true;
    place.standing = standing;
    place.ask = [this](int lost) { asked.push_back(lost); };
    place.connections.emplace_back().rank = 0;
  }
  ~OfOneRank() { place.health->set_abort_word(nullptr); }

  void hear(FrameKind kind, int rank, std::uint64_t calls = unknown_calls) {
    Frame frame = make_frame(kind, rank);
    frame.calls = calls;
    place.on_frame(place.connections.front(), frame);
  }
  void pass(milliseconds time) {
    now += time;
    place.on_time(now);
  }
  void answer(int rank, bool idle) { place.on_answer(rank, standing->calls, idle, now); }
  bool well() const { return place.health->code() == ncclSuccess && word == 0; }

  std::uint32_t word = 0;
  std::vector<int> asked;
  std::shared_ptr<WatchStanding> standing = std::make_shared<WatchStanding>();
  WatchSeat::Place place;
  Clock::time_point now = Clock::now();
};

TEST(RankThatEnds, WithAllCallsDoneIsNotMissed) {
  for (const FrameKind how : {FrameKind::exited, FrameKind::aborted}) {
    OfOneRank watch;
    watch.standing->calls = 5;
    watch.hear(how, 3, 5);
    for (int i = 0; i < 100; ++i) watch.pass(milliseconds(500));
    EXPECT_TRUE(watch.well()) << "whatever is still on its way here";
    EXPECT_TRUE(watch.asked.empty());
    EXPECT_EQ(watch.place.health->limit(), 5U);
    EXPECT_THROW(watch.place.health->exceed(), Failure);
    EXPECT_TRUE(contains(watch.place.health->sentence(), "rank 3 ")) << watch.place.health->sentence();
  }
}

TEST(RankThatEnds, BeforeACallOfItsPeersIsMissedInIt) {
  OfOneRank watch;
  watch.standing->calls = 6;
  watch.hear(FrameKind::exited, 3, 5);
  watch.pass(milliseconds(150));
  EXPECT_TRUE(watch.well()) << "no grace";
  watch.pass(milliseconds(100));
  EXPECT_EQ(watch.place.health->code(), ncclRemoteError);
  watch.pass(milliseconds(100));
  EXPECT_NE(watch.word, 0U);
}

// It ended without a word: who has nothing on the way cannot miss it.
TEST(RankThatEnds, WithoutAWordIsMissedByThoseWithCallsOnTheWay) {
  for (const bool idle : {true, false}) {
    OfOneRank watch;
    watch.standing->calls = 5;
    watch.hear(FrameKind::ended, 3);
    watch.pass(milliseconds(150));
    EXPECT_TRUE(watch.asked.empty()) << "no grace";
    watch.pass(milliseconds(100));
    ASSERT_EQ(watch.asked, std::vector{3});
    watch.answer(3, idle);
    watch.pass(milliseconds(100));
    watch.pass(milliseconds(100));
    EXPECT_EQ(watch.well(), idle);
    EXPECT_EQ(watch.place.health->limited(), idle);
  }
}

TEST(RankThatEnds, FirstInTheOrderOfCallsIsTheOneThatCounts) {
  OfOneRank watch;
  watch.standing->calls = 3;
  watch.hear(FrameKind::exited, 3, 5);
  watch.hear(FrameKind::exited, 2, 4);
  watch.hear(FrameKind::exited, 0, 6);
  watch.pass(seconds(1));
  EXPECT_TRUE(watch.well());
  EXPECT_EQ(watch.place.health->limit(), 4U);
  EXPECT_THROW(watch.place.health->exceed(), Failure);
  EXPECT_TRUE(contains(watch.place.health->sentence(), "rank 2 ")) << watch.place.health->sentence();
}

TEST(RankThatEnds, MakesNoOtherLossHarmless) {
  OfOneRank watch;
  watch.standing->calls = 5;
  watch.hear(FrameKind::exited, 3, 5);
  watch.pass(seconds(1));
  EXPECT_TRUE(watch.well());
  watch.hear(FrameKind::ended, 3);  // its process, after its own word
  watch.pass(seconds(1));
  EXPECT_TRUE(watch.well() && watch.asked.empty());
  watch.hear(FrameKind::aborted, 2, 4);
  watch.pass(seconds(1));
  EXPECT_FALSE(watch.well());
  EXPECT_TRUE(contains(watch.place.health->sentence(), "rank 2 ")) << watch.place.health->sentence();
}

TEST(RankThatEnds, BecauseItCannotGoOnIsMissedAtOnce) {
  OfOneRank watch;
  watch.hear(FrameKind::failed, 3, 0);
  watch.pass(milliseconds(250));
  EXPECT_FALSE(watch.well());
}

// Nobody counts launches of graphs. One that waits for the lost rank never ends.
TEST(RankThatEnds, IsMissedByAGraphThatDoesNotEndForTenSeconds) {
  OfOneRank watch;
  watch.standing->graphs = true;
  watch.hear(FrameKind::exited, 3, 0);
  const auto look = [&](bool idle) {
    watch.asked.clear();
    watch.pass(milliseconds(1001));
    ASSERT_EQ(watch.asked, std::vector{3});
    watch.answer(3, idle);
  };
  watch.pass(milliseconds(250));
  for (int i = 0; i < 9; ++i) look(false);
  look(true);
  for (int i = 0; i < 9; ++i) look(false);
  watch.pass(milliseconds(100));
  EXPECT_TRUE(watch.well());
  watch.pass(milliseconds(901));
  watch.answer(3, false);
  watch.pass(milliseconds(100));
  watch.pass(milliseconds(100));
  EXPECT_FALSE(watch.well());
}

TEST(RankThatEnds, IsMissedAtOnceWhereGraphsDoNotTellTheirEnd) {
  OfOneRank watch;
  watch.standing->graphs = watch.standing->blind = true;
  watch.hear(FrameKind::exited, 3, 0);
  watch.pass(milliseconds(250));
  EXPECT_FALSE(watch.well());
}

// Through NCCL's API
// ---------------------------------------------------------------------------------------------------

enum class How { exit, quick_exit, abort };

// They are no calls that a rank can be missing in.
void calls_that_others_do_not_make(ncclComm_t comm, int rank) {
  float value = 0;
  if (rank == 0) {
    EXPECT_NE(ncclReduce(&value, &value, 1, ncclFloat32, ncclSum, 99, comm, nullptr), ncclSuccess) << "no such root";
    EXPECT_EQ(ncclSend(&value, 1, ncclFloat32, 1, comm, nullptr), ncclSuccess);
  }
  if (rank == 1) {
    EXPECT_EQ(ncclRecv(&value, 1, ncclFloat32, 0, comm, nullptr), ncclSuccess);
    my_device().captures = {{stream(7), 100}};
    EXPECT_EQ(all_reduce(comm), ncclSuccess);
    my_device().captures.clear();
  }
}

ncclResult_t reduce_in_a_group(ncclComm_t comm) {
  float value = 0;
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclReduce(&value, &value, 1, ncclFloat32, ncclSum, 0, comm, nullptr), ncclSuccess);
  return ncclGroupEnd();
}

void expect_an_end_behind_its_calls(ncclComm_t comm) {
  FakeDevice& device = my_device();
  device.events_done = false;
  std::atomic<bool> ended{false};
  std::thread gpu([&] {
    ::usleep(500'000);
    EXPECT_FALSE(ended) << "the end of a communicator came before its calls were done";
    device.events_done = true;
  });
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess) << ncclGetLastError(nullptr);
  ended = true;
  gpu.join();
}

void one_of_four_goes(How how) {
  FakeDevices devices;
  const ncclUniqueId id = new_id();
  std::vector<pid_t> children;
  for (int rank = 0; rank < 4; ++rank) {
    children.push_back(start_process([&, rank] {
      ncclComm_t comm = nullptr;
      ASSERT_EQ(ncclCommInitRank(&comm, 4, id, rank), ncclSuccess);
      for (int i = 0; i < 3; ++i) ASSERT_EQ(all_reduce(comm), ncclSuccess);
      calls_that_others_do_not_make(comm, rank);
      barrier(comm);
      if (rank == 3 && how == How::exit) ::exit(0);
      if (rank == 3 && how == How::quick_exit) ::_exit(0);
      if (rank == 3) {
        EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
        return;
      }
      // Calls that need the lost rank no more are still behind the program's own work.
      const std::uint32_t* word = static_cast<const std::uint32_t*>(my_device().launches.back().arguments.abort);
      if (how != How::quick_exit) my_device().events_done = false;
      const Health& health = registry().find(comm)->ours->health();
      EXPECT_TRUE(eventually([&] { return health.limited(); }, 20'000)) << "nobody has noticed";
      ::usleep(300'000);
      EXPECT_EQ(health.code(), ncclSuccess);
      EXPECT_EQ(__atomic_load_n(word, __ATOMIC_ACQUIRE), 0U) << "a kernel was ended";
      if (rank == 2) return expect_an_end_behind_its_calls(comm);
      EXPECT_EQ(rank == 0 ? all_reduce(comm) : reduce_in_a_group(comm), ncclRemoteError);
      EXPECT_TRUE(contains(ncclGetLastError(comm), "rank 3 (pid ")) << ncclGetLastError(comm);
      my_device().events_done = true;
      EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess) << ncclGetLastError(nullptr);
    }));
  }
  for (const pid_t child : children) EXPECT_EQ(wait_for(child), 0);
}

TEST(RankThatEnds, ByExitLeavesThePeersTheirCalls) { one_of_four_goes(How::exit); }
TEST(RankThatEnds, WithoutExitLeavesPeersWithoutCallsAlone) { one_of_four_goes(How::quick_exit); }
TEST(RankThatEnds, ByAnAbortLeavesThePeersTheirCalls) { one_of_four_goes(How::abort); }

}  // namespace
}  // namespace busbw::gpu::test

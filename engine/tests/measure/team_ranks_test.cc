// Threads that line up before what is timed, in both ways.
#include "engine/measure/team.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "engine/tests/rendezvous/ranks.h"

namespace busbw {
namespace {

class LinesUp : public ::testing::TestWithParam<LineUp> {};

TEST_P(LinesUp, NobodyLeavesBeforeAllHaveCome) {
  const std::unique_ptr<Rendezvous> alone = Rendezvous::alone();
  constexpr int threads = 4;
  constexpr int rounds = 200;
  Team team(*alone, threads, GetParam());
  std::atomic<int> arrived{0};
  std::atomic<int> early{0};
  const auto work = [&](int thread) {
    for (int round = 1; round <= rounds; ++round) {
      ++arrived;
      team.line_up(thread);
      if (arrived < round * threads) ++early;
      team.barrier();
    }
  };
  std::vector<std::thread> helpers;
  for (int t = 1; t < threads; ++t) helpers.emplace_back(work, t);
  work(0);
  for (std::thread& helper : helpers) helper.join();
  EXPECT_EQ(arrived, threads * rounds);
  EXPECT_EQ(early, 0);
}

TEST_P(LinesUp, AFailureElsewhereEndsTheWait) {
  const std::unique_ptr<Rendezvous> alone = Rendezvous::alone();
  Team team(*alone, 3, GetParam());
  std::atomic<int> ended{0};
  const auto wait = [&](int thread) {
    try {
      team.line_up(thread);
    } catch (const PeerFailure&) {
      ++ended;
    }
  };
  std::thread first(wait, 0);
  std::thread last(wait, 2);
  team.fail(ExitCode::nccl, "the thread in the middle does not come");
  first.join();
  last.join();
  EXPECT_EQ(ended, 2);
}

TEST(Team, WhoAsksAfterTheFailureIsToldOfItAtOnce) {
  const std::unique_ptr<Rendezvous> alone = Rendezvous::alone();
  Team team(*alone, 1);
  int told = 0;
  team.fail(ExitCode::nccl, "the other rank was killed as it began");
  team.on_failure([&] { ++told; });
  EXPECT_EQ(told, 1);
  team.on_failure(nullptr);
  team.fail(ExitCode::nccl, "once more");
  EXPECT_EQ(told, 1);
}

TEST(Team, AnErrorOfTheLibraryGivesWayToTheFailureOfAnotherProcessThatCausedIt) {
  testing::TestJob job(2);
  testing::Arrivals failing;
  auto children = job.start_all([&](Rendezvous& rendezvous) {
    Team team(rendezvous, 1, LineUp::spinning);
    team.barrier();
    if (rendezvous.placement().process == 1) {
      failing.all(1);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      team.fail(ExitCode::interrupted, "stopped by SIGTERM");
    } else {
      failing.arrive();
      team.fail(ExitCode::nccl, "a rank has gone");
    }
    rendezvous.on_failure(nullptr);
    return team.failure()->sentence;
  });
  for (auto& child : children) EXPECT_EQ(child.said(), "stopped by SIGTERM");
}

TEST(Team, AnErrorOfTheLibraryThatNobodyElseExplainsStands) {
  testing::TestJob job(2);
  auto children = job.start_all([&](Rendezvous& rendezvous) {
    Team team(rendezvous, 1, LineUp::spinning);
    team.barrier();
    if (rendezvous.placement().process == 1)
      team.fail(ExitCode::nccl, "out of memory");
    else
      testing::wait_for_failure(rendezvous);
    rendezvous.on_failure(nullptr);
    return team.failure()->sentence;
  });
  for (auto& child : children) EXPECT_EQ(child.said(), "out of memory");
}

INSTANTIATE_TEST_SUITE_P(Both, LinesUp, ::testing::Values(LineUp::spinning, LineUp::sleeping));

}  // namespace
}  // namespace busbw

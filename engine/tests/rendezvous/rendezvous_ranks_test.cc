// Several real processes: they meet, exchange, wait for each other, and learn of each other's failures.
#include "engine/rendezvous/rendezvous.h"

#include <gtest/gtest.h>

#include "engine/tests/rendezvous/ranks.h"

namespace busbw {
namespace {

using namespace testing;

std::string joined_text(const std::vector<std::string>& parts) {
  std::string all;
  for (const std::string& part : parts) all += part + "|";
  return all;
}

TEST(Rendezvous, OfOneNeedsNobody) {
  const auto alone = join_job({});
  EXPECT_EQ(alone->placement().processes, 1);
  EXPECT_EQ(alone->placement().launcher, "none");
  EXPECT_EQ(alone->all_gather("me"), std::vector<std::string>{"me"});
  EXPECT_EQ(alone->all_gather(2.5), std::vector<double>{2.5});
  alone->barrier();
  alone->leave();
  EXPECT_EQ(alone->failure(), nullptr);
}

TEST(Rendezvous, GathersTextsOfDifferentLengthsInProcessOrder) {
  TestJob job(4);
  auto children = job.start_all([](Rendezvous& r) {
    const int me = r.placement().process;
    std::string said = joined_text(r.all_gather(std::string(static_cast<std::size_t>(me), 'x')));
    said += r.broadcast(std::to_string(me), 2);
    r.leave();
    return said;
  });
  for (auto& child : children) EXPECT_EQ(child.said(), "|x|xx|xxx|2");
}

#if defined(__SANITIZE_THREAD__)
// The sanitizer makes process 0 spend seconds in one turn on the largest, so that a busy machine takes it for lost.
constexpr std::size_t large = 2u << 20;
#else
constexpr std::size_t large = 16u << 20;
#endif

TEST(Rendezvous, GathersContributionsOfTheLargestSizeFromAll) {
  TestJob job(3);
  auto children = job.start_all([](Rendezvous& r) {
    const std::string mine(large, static_cast<char>('A' + r.placement().process));
    bool right = true;
    int process = 0;
    for (const std::string& part : r.all_gather(mine))
      right = right && part == std::string(large, static_cast<char>('A' + process++));
    r.leave();
    return std::string(right && process == 3 ? "right" : "wrong");
  });
  for (auto& child : children) EXPECT_EQ(child.said(100s), "right");
}

class Barrier : public ::testing::TestWithParam<int> {};

TEST_P(Barrier, KeepsNumbersOfManyRoundsApartWithMoreProcessesThanCores) {
  TestJob job(GetParam());
  auto children = job.start_all([](Rendezvous& r) {
    const double me = r.placement().process;
    for (int round = 0; round < 500; ++round) {
      const auto numbers = r.all_gather(round * 100 + me);
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        if (numbers[i] != round * 100 + static_cast<double>(i)) return format("wrong in round %d", round);
      }
      r.barrier();
    }
    r.leave();
    return std::string("right");
  });
  for (auto& child : children) EXPECT_EQ(child.said(100s), "right");
}
INSTANTIATE_TEST_SUITE_P(Processes, Barrier, ::testing::Values(2, 3, 5, 8));

class Killed : public ::testing::TestWithParam<int> {};

TEST_P(Killed, ProcessIsNamedToEveryOtherOneWhereverTheyWait) {
  const int victim = GetParam();
  TestJob job(3);
  Arrivals met;
  auto children = job.start_all([victim, &met](Rendezvous& r) {
    r.barrier();
    met.arrive();
    if (r.placement().process == victim) std::this_thread::sleep_for(60s);
    if (r.placement().process == (victim + 1) % 3) {
      try {
        r.barrier();  // spins in shared memory
      } catch (const PeerFailure& lost) {
        return std::string(lost.what());
      }
    }
    try {
      r.all_gather("x");  // waits for the network
    } catch (const PeerFailure& lost) {
      return std::string(lost.what());
    }
    return std::string("nothing noticed");
  });
  ASSERT_TRUE(met.all(3));
  std::this_thread::sleep_for(100ms);  // so that the others wait where they are to be found
  const auto pid = children[static_cast<std::size_t>(victim)].pid();
  children[static_cast<std::size_t>(victim)].kill(SIGKILL);
  const auto killed_at = Clock::now();
  for (int process = 0; process < 3; ++process) {
    if (process == victim) continue;
    const std::string said = children[static_cast<std::size_t>(process)].said();
    EXPECT_NE(said.find(format("process %d (pid %d on host", victim, pid)), std::string::npos) << said;
    EXPECT_NE(said.find("was lost: its connection closed in mid-run"), std::string::npos) << said;
  }
  EXPECT_LT(Clock::now() - killed_at, 15s);
}
INSTANTIATE_TEST_SUITE_P(Process, Killed, ::testing::Values(0, 1, 2));

TEST(Rendezvous, CallsTheActionOnceWhenAPeerIsLost) {
  TestJob job(2);
  auto children = job.start_all([](Rendezvous& r) {
    std::atomic<int> calls{0};
    r.on_failure([&](const Failure& failure) { calls += 1 + failure.process; });
    r.barrier();
    if (r.placement().process == 1) _exit(1);
    wait_for_failure(r);
    std::this_thread::sleep_for(1500ms);
    r.on_failure(nullptr);
    return std::to_string(calls);
  });
  EXPECT_EQ(children[0].said(), "2");
}

TEST(Rendezvous, AnnouncesAFailureBeforeItsProcessEnds) {
  for (const int failing : {0, 1}) {
    TestJob job(3);
    auto children = job.start_all([failing](Rendezvous& r) {
      r.barrier();
      if (r.placement().process == failing) {
        r.announce({.process = failing, .code = ExitCode::cuda, .sentence = "no memory on GPU 3"});
        _exit(0);
      }
      const std::string sentence = wait_for_failure(r);
      return sentence + " " + std::to_string(static_cast<int>(r.failure()->code));
    });
    for (int process = 0; process < 3; ++process) {
      if (process == failing) continue;
      EXPECT_EQ(children[static_cast<std::size_t>(process)].said(), "no memory on GPU 3 2");
    }
  }
}

TEST(Rendezvous, LeavesInOrderHoweverLateTheOthersAre) {
  TestJob job(3);
  auto children = job.start_all([](Rendezvous& r) {
    r.barrier();
    std::this_thread::sleep_for(300ms * r.placement().process);
    const Failure* before = r.failure();
    r.leave();
    return std::string(before || r.failure() ? "false alarm" : "quiet");
  });
  for (auto& child : children) EXPECT_EQ(child.said(), "quiet");
}

TEST(Rendezvous, EndsACallThatCountsOnAProcessThatLeft) {
  TestJob job(2);
  auto children = job.start_all([](Rendezvous& r) {
    r.barrier();
    if (r.placement().process == 1) {
      r.leave();
      return std::string("left");
    }
    r.barrier();
    return std::string("passed");
  });
  const std::string said = children[0].said();
  EXPECT_NE(said.find("has left the job"), std::string::npos) << said;
}

TEST(Rendezvous, NamesTheProcessesThatDidNotCome) {
  TestJob job(4);
  auto quick = [&](int process) {
    Environment variables = job.environment(process);
    variables["BUSBW_JOIN_TIMEOUT"] = "2";
    return TestJob::start(variables, [](Rendezvous&) { return std::string("met"); });
  };
  Child zero = quick(0), two = quick(2);
  job.listener.socket.close();
  for (Child* child : {&zero, &two}) {
    const std::string said = child->said();
    EXPECT_NE(said.find("2 of 4 processes did not come within 2 s: processes 1, 3"), std::string::npos) << said;
  }
}

TEST(Rendezvous, SaysWhereProcess0WasLookedFor) {
  TestJob job(2);
  Environment variables = job.environment(1);
  variables["BUSBW_JOIN_TIMEOUT"] = "1";
  job.listener.socket.close();
  const std::string said = TestJob::start(variables, [](Rendezvous&) { return std::string("met"); }).said();
  EXPECT_NE(said.find("could not reach process 0 at " + variables["BUSBW_ADDRESS"] + " within 1 s: Connection refused"),
            std::string::npos)
      << said;
}

TEST(Rendezvous, TellsANameThatNobodyKnowsAtOnce) {
  TestJob job(2);
  Environment variables = job.environment(1);
  variables["BUSBW_ADDRESS"] = "no-such-host.invalid:21000";
  const auto start = std::chrono::steady_clock::now();
  const std::string said = TestJob::start(variables, [](Rendezvous&) { return std::string("met"); }).said();
  EXPECT_NE(said.find("'no-such-host.invalid', cannot be resolved"), std::string::npos) << said;
  if (said.find("Temporary failure") != std::string::npos)
    GTEST_SKIP() << "no name server here says that it knows no such name";
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10)) << said;
}

}  // namespace
}  // namespace busbw

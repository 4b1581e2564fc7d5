// A program's own steps: found in its calls, timed in blocks, and what the ranks then go by.
#include "library/gpu/run/own_steps.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <random>

#include "library/tests/gpu/fake_device.h"

namespace busbw::gpu::test {
namespace {

Call call_of(Collective collective, std::size_t count, std::uintptr_t send) {
  Call call;
  call.collective = collective;
  call.type = ncclBfloat16;
  call.count = count;
  call.send = reinterpret_cast<const void*>(send);
  call.stream = stream(7);
  return call;
}

// Number `i` of a step's calls: buckets of one size.
Call bucket(std::uint64_t i) { return call_of(Collective::all_reduce, 1 << 20, 4096 * (i + 1)); }

CallHistory history_of(std::uint64_t calls, const std::function<Call(std::uint64_t)>& call) {
  CallHistory history;
  for (std::uint64_t number = 0; number < calls; ++number) history.add(number, call(number));
  return history;
}

TEST(CallHistory, FindsAStepByItsBuffersWhereAllSizesAreOne) {
  const auto step_of_12 = [](std::uint64_t number) { return bucket(number % 12); };
  EXPECT_EQ(history_of(36, step_of_12).period(), 12u);
  EXPECT_EQ(history_of(35, step_of_12).period(), 0u) << "less than three steps";
  EXPECT_EQ(history_of(10'000, step_of_12).period(), 12u) << "what is long ago is forgotten";
}

TEST(CallHistory, FindsAStepBySizesWhereBuffersWander) {
  std::mt19937 random(1);
  // As FSDP: gathers, then gathers and scatters in turn.
  const auto call = [&](std::uint64_t number) {
    const std::uint64_t i = number % 30;
    const bool scatter = i >= 10 && i % 2 == 1;
    return call_of(scatter ? Collective::reduce_scatter : Collective::all_gather, 1 << 20, 64 * (random() % 1000));
  };
  EXPECT_EQ(history_of(200, call).period(), 30u);
  EXPECT_EQ(history_of(90, call).period(), 30u) << "and not what backward repeats";
  EXPECT_EQ(history_of(89, call).period(), 0u) << "a gather and a scatter in turn are no step";
}

TEST(CallHistory, FindsNoStepInForwardAlone) {
  EXPECT_EQ(
      history_of(60, [](std::uint64_t number) { return call_of(Collective::all_gather, 1000, number % 2); }).period(),
      0u);
}

TEST(CallHistory, FindsNoneWhereNothingComesAgainOrTooLate) {
  std::mt19937 random(1);
  EXPECT_EQ(
      history_of(3000, [&](std::uint64_t) { return call_of(Collective::all_reduce, random(), random()); }).period(),
      0u);
  const auto long_step = [](std::uint64_t number) { return call_of(Collective::all_reduce, number % 1366, 0); };
  EXPECT_EQ(history_of(20'000, long_step).period(), 0u);
  const auto longest = [](std::uint64_t number) { return call_of(Collective::all_reduce, number % 1365, 0); };
  EXPECT_EQ(history_of(20'000, longest).period(), 1365u);
  EXPECT_EQ(CallHistory().period(), 0u);
}

TEST(CallHistory, CountsCallsThatItDidNotSee) {
  CallHistory history;
  for (std::uint64_t number = 0; number < 100; ++number) {
    if (number % 10 != 3) history.add(number, bucket(number % 10));
  }
  EXPECT_EQ(history.period(), 10u);
}

TEST(BlockOfSteps, IsTwoStepsAndNoFewerCallsThan32) {
  EXPECT_EQ(block_of_steps(48), 96u);
  EXPECT_EQ(block_of_steps(16), 32u);
  EXPECT_EQ(block_of_steps(3), 33u);
  EXPECT_EQ(block_of_steps(1), 32u);
  EXPECT_EQ(block_of_steps(1365), 2730u);
  EXPECT_EQ(block_of_steps(0), 0u);
  EXPECT_EQ(block_of_steps(1366), 0u);
}

// Two ranks in one process: a step has `calls` calls and takes so many milliseconds by either way.
class Job {
 public:
  Job() {
    pages_.push_back(Ballots::make(0, 2));
    pages_.push_back(Ballots::open(Descriptor(::dup(pages_[0]->descriptor().get())), 1, 2));
    for (int rank = 0; rank < 2; ++rank) {
      devices_.push_back(std::make_shared<FakeDevice>(rank));
      devices_.back()->clock = [this] { return now_; };
      steps_.emplace_back(devices_.back(), *pages_[std::size_t(rank)], rank, false);
    }
  }
  // True where all calls of the last step went our way, false where none did.
  bool run(int steps, std::uint64_t calls, double nccl, double ours,
           const std::function<Call(std::uint64_t)>& call = bucket) {
    int ours_of_step = 0;
    for (int step = 0; step < steps; ++step) {
      ours_of_step = 0;
      for (std::uint64_t i = 0; i < calls; ++i, ++number_) {
        bool by_ours[2];
        const Call now = call(i);
        for (std::size_t rank = 0; rank < 2; ++rank) {
          if (pages_[rank]->wants_vote(number_)) pages_[rank]->vote(number_, votes_);
          steps_[rank].see(number_, now);
          by_ours[rank] = steps_[rank].overlap(number_);
        }
        EXPECT_EQ(by_ours[0], by_ours[1]) << number_;
        ours_of_step += by_ours[0];
        ours_ += by_ours[0];
        // Most of a step lies between two calls of it.
        if (i == calls / 3) now_ += (by_ours[0] ? ours : nccl) - 1;
        now_ += 1.0 / double(calls);
      }
    }
    // Ways change where a block begins, which may lie within a step.
    EXPECT_TRUE(steps == 1 || ours_of_step == 0 || ours_of_step == int(calls)) << ours_of_step;
    return ours_of_step > 0;
  }
  // The clock of this rank's GPU is off in the first trial, which begins at call 192, so that of NCCL's timed blocks
  // and of ours the first is long and the second is short.
  void disturb(std::size_t rank) {
    devices_[rank]->clock = [this] {
      constexpr std::array<double, Trial::blocks> ahead{0, 0, 10, 10, 20, 10, 10, 0};
      const std::uint64_t block = (std::max(number_, std::uint64_t{192}) - 192) / 96;
      return now_ + (block < ahead.size() ? ahead[block] : 0);
    };
  }
  void vote_no() { votes_ = false; }
  std::uint32_t block() const { return pages_[0]->trial().plan(number_).block; }
  // Steps that differ by up to 10 ms, whichever way they go.
  void run_restless(int steps, double nccl, double ours, unsigned seed) {
    std::mt19937 random(seed);
    for (int step = 0; step < steps; ++step) {
      const double more = double(random() % 100) / 10;
      run(1, 48, nccl + more, ours + more);
    }
  }
  FakeDevice& device(int rank) { return *devices_[std::size_t(rank)]; }
  int ours() const { return ours_; }

 private:
  std::vector<std::unique_ptr<Ballots>> pages_;
  std::vector<std::shared_ptr<FakeDevice>> devices_;
  std::deque<OwnSteps> steps_;
  std::uint64_t number_ = 0;
  int ours_ = 0;
  bool votes_ = true;
  double now_ = 0;
};

TEST(OwnSteps, KeepOursWhereAStepIsFasterWithIt) {
  for (const std::uint64_t calls : {1, 7, 48, 240}) {
    Job job;
    EXPECT_TRUE(job.run(calls == 1 ? 900 : 80, calls, 38.9, 37.4)) << calls;
  }
}

TEST(OwnSteps, GoBackToNcclWhereAStepIsSlower) {
  for (const std::uint64_t calls : {1, 7, 48, 240}) {
    Job job;
    EXPECT_FALSE(job.run(calls == 1 ? 900 : 80, calls, 31.5, 46.0)) << calls;
    EXPECT_GT(job.ours(), 0) << "it was tried";
  }
}

TEST(OwnSteps, VoteWhenTheGpuHasComeThere) {
  Job job;
  job.device(1).events_done = false;
  EXPECT_FALSE(job.run(26, 48, 38.9, 37.4)) << "rank 1 cannot know yet";
  job.device(1).events_done = true;
  EXPECT_TRUE(job.run(80, 48, 38.9, 37.4));
}

TEST(OwnSteps, TellNothingInACapture) {
  Job job;
  job.run(4, 32, 38.9, 37.4);
  job.device(0).captures[stream(7)] = 5;
  EXPECT_FALSE(job.run(80, 32, 38.9, 37.4));
}

// FSDP of 80 layers, with two buffers for gathers in turn: what looks like a step early is none, and is tried again.
TEST(OwnSteps, AreFoundThoughAPhaseOfOneLooksLikeMany) {
  constexpr std::uint64_t layers = 80;
  const auto call = [](std::uint64_t i) {
    if (i < layers) return call_of(Collective::all_gather, 1 << 20, 64 * (1 + i % 2));
    const std::uint64_t j = i - layers;
    return j % 2 == 0 ? call_of(Collective::all_gather, 1 << 20, 64 * (1 + j / 2 % 2))
                      : call_of(Collective::reduce_scatter, 1 << 18, 640);
  };
  Job slower;
  EXPECT_FALSE(slower.run(60, 3 * layers, 300, 330, call));
  Job faster;
  EXPECT_TRUE(faster.run(60, 3 * layers, 300, 290, call));
}

// Experts exchange tokens, and nothing is reduced on their communicator.
TEST(OwnSteps, AreFoundWhereAllIsExchanged) {
  const auto exchange = [](std::uint64_t i) { return call_of(Collective::all_to_all, 4 << 20, 64 * (1 + i)); };
  Job faster, slower;
  EXPECT_TRUE(faster.run(80, 16, 7.2, 7.0, exchange));
  EXPECT_FALSE(slower.run(80, 16, 7.0, 7.2, exchange));
}

// A program that goes on to another model, on the same communicator.
TEST(OwnSteps, AreTriedAgainWhereTheProgramGoesOnToOthers) {
  const auto other = [](std::uint64_t i) { return call_of(Collective::all_reduce, 3 << 20, 4096 * (i + 1)); };
  Job job;
  EXPECT_TRUE(job.run(40, 48, 38.9, 37.4));
  EXPECT_FALSE(job.run(100, 12, 25.0, 27.0, other)) << "slower there";
  const int before = job.ours();
  EXPECT_FALSE(job.run(40, 12, 25.5, 27.5, other));
  EXPECT_EQ(job.ours(), before) << "and not tried again";
  EXPECT_TRUE(job.run(70, 48, 38.9, 37.4));
}

// As in a program's first seconds.
TEST(OwnSteps, AreTriedLongerWhereTheyAreRestless) {
  Job faster, slower;
  faster.run_restless(30, 38.9, 37.4, 5);
  EXPECT_TRUE(faster.run(120, 48, 38.9, 37.4));
  slower.run_restless(30, 37.4, 38.9, 5);
  EXPECT_FALSE(slower.run(120, 48, 37.4, 38.9));
}

TEST(OwnSteps, AreNotTriedForEver) {
  Job job;
  job.run_restless(400, 38, 38, 7);
  const int before = job.ours();
  job.run_restless(100, 38, 38, 9);
  EXPECT_TRUE(job.ours() == before || job.ours() == before + 4800) << "one way or the other";
}

// One rank saw blocks that were mixed, the other did not and comes first to each start point.
TEST(OwnSteps, AreTriedAgainWhereOneRankAsksForIt) {
  Job job;
  job.disturb(1);
  EXPECT_TRUE(job.run(80, 48, 38.9, 37.4));
  EXPECT_EQ(job.block(), 96u) << "rank 0 saw nothing restless";
  Job both;
  both.disturb(0);
  both.disturb(1);
  EXPECT_TRUE(both.run(80, 48, 38.9, 37.4));
  EXPECT_EQ(both.block(), 96u);
}

// A validation in the middle of a trial: its blocks are no whole steps.
TEST(OwnSteps, AreTriedAgainWhereSomethingElseCameBetween) {
  Job job;
  job.run(8, 48, 38.9, 37.4);
  job.run(2, 31, 38.9, 37.4, [](std::uint64_t i) { return call_of(Collective::all_gather, 77, i); });
  EXPECT_TRUE(job.run(160, 48, 38.9, 37.4));
}

TEST(OwnSteps, AreNotTriedWhereTheRanksHaveNotVotedForIt) {
  Job job;
  job.vote_no();
  EXPECT_FALSE(job.run(120, 48, 38.9, 37.4));
  EXPECT_EQ(job.ours(), 0);
}

TEST(OwnSteps, AreTriedAgainWithAnotherBatch) {
  Job job;
  EXPECT_TRUE(job.run(40, 48, 38.9, 37.4));
  EXPECT_FALSE(job.run(40, 48, 26.2, 27.3));
  EXPECT_TRUE(job.run(60, 48, 38.9, 37.4)) << "start points are 1,024 calls apart from call 4096 on";
}

// Each step has calls of its own: no trial can tell, and what everybody knows is taken.
TEST(OwnSteps, GoBackToNcclWhereStepsDiffer) {
  Job job;
  std::mt19937 random(3);
  EXPECT_FALSE(job.run(200, 48, 38.9, 37.4,
                       [&](std::uint64_t) { return call_of(Collective::all_reduce, 1 + random() % 100000, 4096); }));
}

}  // namespace
}  // namespace busbw::gpu::test

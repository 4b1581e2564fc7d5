// Over a fake GPU: which collectives are marked, and what a look says of them.
#include <dlfcn.h>

#include <cstdlib>
#include <memory>

#include "library/common/nccl/real_nccl.h"
#include "library/record/communicators.h"
#include "library/record/gpu_times.h"
#include "library/record/heart.h"
#include "library/record/marks.h"
#include "library/tests/record/recorded.h"

namespace busbw {

const LibraryInFront this_library = {"a test of marks", "busbwRecorderTest", "BUSBW_RECORD_OVER"};

}  // namespace busbw

namespace busbw::record::test {
namespace {

constexpr std::uint64_t step_ns = 1'000'000;

class MarksTest : public Recorded {
 protected:
  static void SetUpTestSuite() {
    driver_ = dlopen(BUSBW_TEST_FAKE_CUDA, RTLD_NOW | RTLD_GLOBAL);
    find_cuda();
  }
  void SetUp() override { ASSERT_TRUE(driver_ && marks_) << "the fake driver has what marks need"; }
  void TearDown() override { fail(0); }

  static void work(const void* stream, double ns) {
    reinterpret_cast<void (*)(const void*, double)>(dlsym(driver_, "fakeCudaWork"))(stream, ns);
  }
  static void wait(const void* stream) {
    reinterpret_cast<int (*)(const void*)>(dlsym(driver_, "cuStreamSynchronize"))(stream);
  }
  static void fail(int error) { reinterpret_cast<void (*)(int)>(dlsym(driver_, "fakeCudaFail"))(error); }

  // A collective of a microsecond, marked whether it is due or not.
  void call(std::uint64_t sequence, const void* on = nullptr) {
    const Mark mark = marks_->begin(on ? on : stream_, sequence, sequence, sequence * step_ns);
    work(on ? on : stream_, 1000);
    mark.end(true);
  }
  Pulse look() {
    Pulse pulse{};
    waits_ = marks_->look(pulse);
    return pulse;
  }

  static void* driver_;
  // Each test has a stream of its own.
  static std::uintptr_t streams_;
  const void* stream_ = reinterpret_cast<const void*>(streams_ += 0x10000);
  const void* other_ = reinterpret_cast<const void*>(streams_ += 0x10000);
  std::unique_ptr<Marks> marks_{new_marks()};
  bool waits_ = false;
};
void* MarksTest::driver_ = nullptr;
std::uintptr_t MarksTest::streams_ = 0x100000;

TEST_F(MarksTest, ACallBehindWorkThatDoesNotEndHasNotBegun) {
  call(1), call(2);
  wait(stream_);
  work(stream_, 1e18);
  call(3), call(4);
  const Pulse pulse = look();
  EXPECT_TRUE(waits_);
  EXPECT_EQ(pulse.begun, 2U);
  EXPECT_EQ(pulse.ended, 2U);
  EXPECT_EQ(pulse.not_begun, 3U) << "of those that wait the first";
  EXPECT_EQ(pulse.not_ended, 3U);
  EXPECT_EQ(pulse.stream, folded(stream_));
  EXPECT_EQ(pulse.error, 0);
}

TEST_F(MarksTest, ACallThatHasBegunAndDoesNotEndIsToldFromThat) {
  call(1);
  wait(stream_);
  const Mark mark = marks_->begin(stream_, 2, 2, 2 * step_ns);
  work(stream_, 1e18);
  mark.end(true);
  call(3);
  const Pulse pulse = look();
  EXPECT_EQ(pulse.begun, 2U);
  EXPECT_EQ(pulse.not_begun, 3U);
  EXPECT_EQ(pulse.ended, 1U);
  EXPECT_EQ(pulse.not_ended, 2U);
}

TEST_F(MarksTest, NothingIsLeftToLookForWhenAllHasEnded) {
  for (std::uint64_t i = 1; i <= 10; ++i) call(i);
  wait(stream_);
  const Pulse pulse = look();
  EXPECT_FALSE(waits_);
  EXPECT_EQ(pulse.begun, 10U);
  EXPECT_EQ(pulse.ended, 10U);
  EXPECT_EQ(pulse.not_begun + pulse.not_ended, 0U);
}

TEST_F(MarksTest, TheFirstThatWaitsStaysKnownHoweverManyFollow) {
  work(stream_, 1e18);
  for (std::uint64_t i = 1; i <= 300; ++i) call(i);
  EXPECT_EQ(look().not_begun, 1U);
}

TEST_F(MarksTest, PlacesAndEventsAreTakenAgain) {
  const auto events = reinterpret_cast<std::size_t (*)()>(dlsym(driver_, "fakeCudaEvents"));
  const std::size_t before = events();
  for (std::uint64_t i = 1; i <= 500; ++i) call(i), wait(stream_);
  EXPECT_EQ(events(), before + 2);
  EXPECT_EQ(look().ended, 500U);
}

TEST_F(MarksTest, OfALaunchTheFirstHasBegunAndTheLastHasEnded) {
  const Mark mark = marks_->begin(stream_, 5, 9, step_ns);
  work(stream_, 1e6);
  EXPECT_EQ(look().begun, 5U);
  EXPECT_EQ(look().not_ended, 5U);
  mark.end(true);
  wait(stream_);
  EXPECT_EQ(look().ended, 9U);
}

TEST_F(MarksTest, ACallThatNcclRefusedLeavesNothing) {
  marks_->begin(stream_, 1, 1, step_ns).end(false);
  const Pulse pulse = look();
  EXPECT_FALSE(waits_);
  EXPECT_EQ(pulse.begun + pulse.not_begun + pulse.not_ended, 0U);
}

TEST_F(MarksTest, WhatTheDriverSaysOfAGpuThatFailedIsKeptAndNothingIsMarkedAfterIt) {
  call(1);
  fail(719);
  EXPECT_EQ(look().error, 719);
  EXPECT_FALSE(waits_);
  fail(0);
  EXPECT_EQ(marks_->begin(stream_, 2, 2, 2 * step_ns).of, nullptr);
}

TEST_F(MarksTest, WordsAboutCapturesSayNothingOfTheGpu) {
  call(1);
  fail(906);
  EXPECT_EQ(look().error, 0);
}

TEST_F(MarksTest, RanksThatCallAlikeMarkAlikeWhateverTheyMarkedFirst) {
  Marks early, late;
  const auto marked = [](Marks& marks, std::uint64_t sequence, std::uint64_t now_ns, const void* stream) {
    if (!marks.is_due(now_ns, now_ns - 30'000, sequence)) return false;
    marks.begin(stream, sequence, sequence, now_ns).end(true);
    return true;
  };
  int both = 0, one = 0;
  for (std::uint64_t sequence = 1; sequence <= 4000; ++sequence) {
    // A call each 30 us; the second rank made its first mark 13 calls later.
    const std::uint64_t now = step_ns + sequence * 30'000;
    const bool first = marked(early, sequence, now, stream_);
    const bool second = sequence > 13 && marked(late, sequence, now + 7000, other_);
    wait(stream_), wait(other_);
    both += first && second;
    one += first != second;
  }
  EXPECT_GE(both, 4000 / 64 - 3);
  EXPECT_LE(one, 5);
}

TEST_F(MarksTest, WhereCallsAreRareEachIsDue) {
  int due = 0;
  for (std::uint64_t sequence = 1; sequence <= 100; ++sequence) {
    if (!marks_->is_due(sequence * step_ns, (sequence - 1) * step_ns, sequence)) continue;
    ++due;
    call(sequence), wait(stream_);
  }
  EXPECT_EQ(due, 100);
}

TEST_F(MarksTest, AfterAPauseACallIsDueWhateverItsNumber) {
  call(1);
  wait(stream_);
  const std::uint64_t now = step_ns + 300'000, later = step_ns + 1'100'000;
  EXPECT_TRUE(marks_->is_due(now, now - 70'000, 3));
  EXPECT_FALSE(marks_->is_due(now, now - 1000, 4)) << "it follows the one before at once";
  EXPECT_FALSE(marks_->is_due(step_ns + 200'000, step_ns + 100'000, 4)) << "a mark in a quarter of a millisecond";
  EXPECT_FALSE(marks_->is_due(later, later - 1000, 3)) << "ranks would not choose alike";
  EXPECT_TRUE(marks_->is_due(later, later - 1000, 4));
}

TEST_F(MarksTest, CallsThatFollowEachOtherAtOnceAreNotDue) {
  int due = 0;
  for (std::uint64_t sequence = 1; sequence <= 1000; ++sequence) {
    const std::uint64_t now = step_ns + sequence * 10'000;
    if (!marks_->is_due(now, now - 10'000, sequence)) continue;
    ++due;
    marks_->begin(stream_, sequence, sequence, now).end(true), wait(stream_);
  }
  EXPECT_LE(due, 10) << "one in a millisecond at most";
  EXPECT_GE(due, 5);
}

TEST_F(MarksTest, TheGpuIsAskedAgainAfterFurtherCalls) {
  Rest rest;
  EXPECT_FALSE(rest.is_due(5));
  EXPECT_TRUE(rest.is_due(5)) << "nothing was called since";
  rest.looked(true);
  EXPECT_TRUE(rest.is_due(5)) << "it has not ended all";
  rest.looked(false);
  EXPECT_FALSE(rest.is_due(5));
  EXPECT_FALSE(rest.is_due(6));
  EXPECT_TRUE(rest.is_due(6));
}

TEST_F(MarksTest, TimesOfCallsThatNcclRefusedGiveTheirEventsBack) {
  make(1024, 1);
  Rank rank;
  rank.recording = recording.get();
  rank.row = row;
  rank.row->device = -1;
  // As many events as a program may have at once are used up by half as many.
  for (int turn = 0; turn < 600; ++turn) {
    Timed* timed = begin_time(&rank, recording->begin(rank.row, {Kind::all_reduce, 1, 7}), stream_);
    ASSERT_TRUE(timed) << turn;
    end_time(timed, false);
  }
  EXPECT_EQ(recording->header().times_missed, 600U);
}

}  // namespace
}  // namespace busbw::record::test

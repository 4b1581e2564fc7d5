// Over a fake GPU: each launch of a graph counts its calls once, and sampled calls have their time on the GPU.
#include <sstream>

#include "library/common/nccl/real_nccl.h"
#include "library/record/communicators.h"
#include "library/record/host_clock.h"
#include "library/tests/gpu/program.h"
#include "library/tests/record/recorded.h"

namespace busbw {

const LibraryInFront this_library = {"a test of the recorder", "busbwRecorderTest", "BUSBW_RECORD_OVER"};

}  // namespace busbw

namespace busbw::record::test {
namespace {

using gpu::test::Finished;
using gpu::test::run;
using Rings = Recorded;
using SimulatedGroups = Recorded;

const std::string preloaded = "LD_PRELOAD=" BUSBW_TEST_RECORDER " ";

Finished record(const Folder& folder, const std::string& what, const std::string& environment = "") {
  return run("BUSBW_RECORD_CALLS=1024 BUSBW_RECORD_DIR=" + folder.path + " " + environment + " " + preloaded,
             BUSBW_TEST_GPU_USER " " + what);
}

// "10 10* 20*": counts of the calls that ran, those by a graph's launch with a star.
std::string ran(const File& file) {
  std::ostringstream words;
  for (std::uint64_t n = 1; n <= file.header().calls; ++n) {
    const Call& call = file.call(n);
    if (File::flags(call) & flag_captured) continue;
    words << (n > 1 ? " " : "") << File::count(call) << (File::launched(call) ? "*" : "");
  }
  return words.str();
}

TEST(Graphs, EachLaunchCountsItsCallsOnceAndInOrder) {
  const Folder folder;
  const Finished done = record(folder, "graphs");
  ASSERT_EQ(done.status, 0) << done.output;
  const File file(folder.path);
  EXPECT_EQ(ran(file), "1 10* 10* 10* 10* 10* 10* 10* 10* 20* 20* 30* 2");
  EXPECT_EQ(file.header().launches, 6U);
  EXPECT_EQ(file.header().sees_launches, 1U);
}

TEST(Graphs, LaunchedCallsTakeTheNextNumbersOfTheirCommunicators) {
  const Folder folder;
  ASSERT_EQ(record(folder, "graphs").status, 0);
  const File file(folder.path);
  std::uint32_t sequences[2] = {};
  for (std::uint64_t n = 1; n <= file.header().calls; ++n) {
    const Call& call = file.call(n);
    ASSERT_LT(call.what >> 48, 2U);
    EXPECT_EQ(call.sequence, ++sequences[call.what >> 48]) << n;
    EXPECT_NE(call.how.load() >> 48, 0U) << "call " << n << " has come back";
    EXPECT_EQ(File::flags(call) & flag_failed, 0);
  }
  for (int place : {0, 1}) {
    EXPECT_EQ(file.row(place).entered, file.row(place).returned);
    EXPECT_EQ(file.row(place).collectives, sequences[place]);
  }
}

TEST(Graphs, CanBeLeftAlone) {
  const Folder folder;
  ASSERT_EQ(record(folder, "graphs", "BUSBW_RECORD_GRAPHS=0").status, 0);
  const File file(folder.path);
  EXPECT_EQ(ran(file), "1 2");
  EXPECT_EQ(file.header().sees_launches, 0U) << "a reader learns that launches are not in it";
}

TEST(Captures, ThatNobodyToldOfAreFoundAndAskedForFromThenOn) {
  const Folder folder;
  const Finished done = record(folder, "hidden");
  ASSERT_EQ(done.status, 0) << done.output;
  const File file(folder.path);
  int seen[101] = {};
  for (std::uint64_t n = 1; n <= file.header().calls; ++n) {
    const Call& call = file.call(n);
    if (File::flags(call) & flag_captured) ++seen[File::count(call)];
  }
  EXPECT_GE(seen[100], 100 - 64);
  EXPECT_EQ(seen[10], 10);
  EXPECT_EQ(seen[1] + seen[2], 0);
}

TEST(Forks, AChildWritesNothingIntoItsParentsRecording) {
  const Folder folder;
  const Finished done = record(folder, "fork");
  ASSERT_EQ(done.status, 0) << done.output;
  EXPECT_EQ(ran(File(folder.path)), "1 2");
}

// Else a call that was long, as one that waited for a rank, would mark another one that has its place now.
TEST_F(Rings, WhatComesBackAfterTheRingCameRoundIsNotWrittenIntoAnotherCall) {
  make();
  const Ticket late = recording->begin(row, {Kind::all_reduce, 7, 7, 0});
  for (std::uint64_t n = 2; n <= 1026; ++n) recording->end(recording->begin(row, {Kind::all_reduce, n, 7, 0}), 0, true);
  recording->end(late, ncclRemoteError, true);
  const File file = this->file();
  EXPECT_EQ(File::count(file.call(1026)), 1026U);
  EXPECT_EQ(File::flags(file.call(1026)) & flag_failed, 0);
  // The place of call 1025 is still the long one's.
  EXPECT_EQ(file.call(1025).stamp.load(), 1U);
  EXPECT_EQ(File::count(file.call(1)), 7U);
  EXPECT_EQ(File::flags(file.call(1)) & flag_failed, flag_failed);
  EXPECT_EQ(file.header().overtaken.load(), 1U);
  EXPECT_EQ(file.row(0).last_error, int(ncclRemoteError));
  EXPECT_EQ(file.row(0).returned, 1026U);
}

// The clock of another thread may be behind a little when the file is made: time in a recording is never negative.
TEST_F(Rings, ACallBeforeTheStartOfTheRecordingBeganAtItsStart) {
  make();
  const Ticket early = recording->begin(row, {Kind::all_reduce, 7, 7, 0}, 1);
  EXPECT_EQ(early.begun_ns, recording->header().monotonic_ns);
  EXPECT_EQ(recording->header().calls.load(), 1U);
}

// Ranks compare collectives by their number, which messages between them must not change.
TEST_F(Rings, CollectivesAndMessagesAreCountedApartAndWhatWasRefusedIsMarked) {
  make();
  const auto next = [&](Kind kind, int result) {
    const Ticket ticket = recording->begin(row, {kind, 7, 7, 0});
    recording->end(ticket, result, true);
    return ticket.sequence;
  };
  EXPECT_EQ(next(Kind::all_reduce, 0), 1U);
  EXPECT_EQ(next(Kind::send, 0), 1U);
  EXPECT_EQ(next(Kind::recv, 0), 2U);
  EXPECT_EQ(next(Kind::all_reduce, ncclInvalidArgument), 2U);
  EXPECT_EQ(row->collectives.load(), 2U);
  EXPECT_EQ(row->last_error, int(ncclInvalidArgument));
  const File file = this->file();
  EXPECT_EQ(File::flags(file.call(1)) & flag_failed, 0);
  EXPECT_EQ(File::flags(file.call(4)) & flag_failed, int(flag_failed));
}

// Places in the ring are found by a mask.
TEST_F(Rings, HoldAPowerOfTwo) {
  setenv("BUSBW_RECORD_CALLS", "3000", 1);
  EXPECT_EQ(Settings::from_environment().calls, 4096U);
  setenv("BUSBW_RECORD_CALLS", "1024", 1);
  EXPECT_EQ(Settings::from_environment().calls, 1024U);
}

TEST(Groups, OneWithinAnotherIsTheSameGroup) {
  Group& group = Group::of_this_thread();
  group.started();
  const std::uint16_t number = this_thread.group;
  EXPECT_NE(number, 0);
  group.started();
  EXPECT_EQ(this_thread.group, number);
  group.ended(true);
  EXPECT_EQ(this_thread.group, number);
  group.ended(true);
  EXPECT_EQ(this_thread.group, 0);
  group.started();
  EXPECT_NE(this_thread.group, number);
  group.ended(true);
}

// All ranks count the children of a communicator alike, so that two splits of one colour are two communicators.
TEST(Identities, OfChildrenDifferByParentWayNumberAndColour) {
  const std::uint64_t one = identity_of_child(5, Made::split, 1, 0);
  EXPECT_EQ(identity_of_child(5, Made::split, 1, 0), one);
  EXPECT_NE(identity_of_child(6, Made::split, 1, 0), one);
  EXPECT_NE(identity_of_child(5, Made::shrink, 1, 0), one);
  EXPECT_NE(identity_of_child(5, Made::split, 2, 0), one);
  EXPECT_NE(identity_of_child(5, Made::split, 1, 1), one);
}

// Ranks that are left out of a shrink do not call it: those that are left count such shrinks alone.
TEST(Identities, OfShrinksAreEqualOnAllRanksThatTakePart) {
  Rank one, other;
  one.identity = other.identity = 5;
  const int third[] = {2}, pair[] = {3, 1}, turned[] = {1, 3};
  const std::uint64_t without_third = identity_of_shrunk(one, third, 1);
  // `other` was the third rank, and takes part in the next one for the first time.
  const std::uint64_t first = identity_of_shrunk(one, pair, 2);
  EXPECT_EQ(identity_of_shrunk(other, turned, 2), first);
  EXPECT_NE(first, without_third);
  const std::uint64_t again = identity_of_shrunk(one, pair, 2);
  EXPECT_NE(again, first);
  EXPECT_EQ(identity_of_shrunk(other, pair, 2), again);
  EXPECT_EQ(one.children.load(), other.children.load()) << "a split after it is the same on all ranks";
  EXPECT_NE(identity_of_shrunk(one, nullptr, 0), again);
}

// What a watcher reads while NCCL waits for the other ranks; of two at once the first.
TEST(Makings, AreInTheRecordingWhileTheyLast) {
  const Folder folder;
  setenv("BUSBW_RECORD_DIR", folder.path.c_str(), 1);
  setenv("BUSBW_RECORD_CALLS", "1024", 1);
  {
    const Making split(NewRank{.identity = 5, .parent = 7, .how = Made::split});
    const Making other(NewRank{.identity = 6, .how = Made::init, .rank = 2, .ranks = 4});
    const Header& header = recording()->header();
    EXPECT_EQ(header.making.load(), Made::split);
    EXPECT_EQ(header.making_identity, 7U);
    EXPECT_EQ(header.making_ranks, -1);
    EXPECT_GE(header.making_ns, header.monotonic_ns);
  }
  EXPECT_EQ(recording()->header().making.load(), Made::none);
  EXPECT_EQ(recording()->header().refused.load(), Made::none);
  {
    Making failing(NewRank{.identity = 9, .how = Made::init, .rank = 1, .ranks = 3});
    failing.refused(5);
  }
  EXPECT_EQ(recording()->header().refused.load(), Made::init);
  EXPECT_EQ(recording()->header().refused_identity, 9U);
  EXPECT_EQ(recording()->header().refused_rank, 1);
  EXPECT_EQ(recording()->header().refused_ranks, 3);
  EXPECT_EQ(recording()->header().refused_error, 5);
  const Making init(NewRank{.identity = 6, .how = Made::init, .rank = 2, .ranks = 4});
  EXPECT_EQ(recording()->header().making_identity, 6U);
  EXPECT_EQ(recording()->header().making_rank, 2);
  EXPECT_NE(recording()->header().mapped_at, 0U);
  unsetenv("BUSBW_RECORD_DIR");
}

TEST(Groups, OnlyTheOutermostEndIsSaidToBeTheEnd) {
  Communicator row{};
  Rank rank{.row = &row};
  Group& group = Group::of_this_thread();
  group.started();
  group.started();
  group.add(&rank);
  group.ending();
  EXPECT_EQ(row.in_group_end.load(), 0U);
  group.ended(true);
  group.ending();
  EXPECT_EQ(row.in_group_end.load(), 1U);
  group.ended(true);
  EXPECT_EQ(row.in_group_end.load(), 0U);
}

// Else this rank would be ahead of the others by calls that nobody made.
TEST_F(SimulatedGroups, CountNoCalls) {
  make();
  Rank rank{.row = row};
  Group& group = Group::of_this_thread();
  const auto call = [&](Kind kind) {
    const Ticket ticket = recording->begin(row, {kind, 7, 7, 0});
    if (this_thread.groups > 0) group.add(&rank, ticket);
    recording->end(ticket, 0, this_thread.groups == 0);
    return ticket.sequence;
  };
  EXPECT_EQ(call(Kind::all_reduce), 1U);
  group.started();
  EXPECT_EQ(call(Kind::all_reduce), 2U);
  group.started();
  EXPECT_EQ(call(Kind::send), 1U);
  group.simulated();
  EXPECT_EQ(row->entered.load(), 3U) << "a group within it ends as ever";
  group.simulated();
  EXPECT_EQ(row->entered.load(), 1U);
  EXPECT_EQ(row->collectives.load(), 1U);
  EXPECT_EQ(row->returned.load(), 1U);
  EXPECT_EQ(row->in_group_end.load(), 0U);
  EXPECT_EQ(call(Kind::all_reduce), 2U);
  group.started();
  EXPECT_EQ(call(Kind::all_reduce), 3U);
  group.ended(true);
  EXPECT_EQ(row->collectives.load(), 3U) << "what a group before it took back is not taken back again";
  EXPECT_EQ(row->returned.load(), 3U);
  group.started();
  EXPECT_EQ(call(Kind::all_reduce), 4U);
  group.simulated();
  EXPECT_EQ(row->collectives.load(), 3U) << "nor what a group before it has made";
  const File file = this->file();
  for (const int number : {1, 4, 5}) EXPECT_EQ(File::flags(file.call(number)) & flag_failed, 0) << number;
  for (const int number : {2, 3}) EXPECT_EQ(File::flags(file.call(number)) & flag_failed, int(flag_failed)) << number;
}

TEST(Ending, IsSaidWhileTheLibraryIsAtIt) {
  Communicator row{};
  const Rank rank{.row = &row};
  {
    const Ending nobody(nullptr);
    const Ending ending(&rank);
    EXPECT_EQ(row.in_group_end.load(), 2U);
  }
  EXPECT_EQ(row.in_group_end.load(), 0U);
}

// Within what reading both takes; whoever takes the processor meanwhile only widens that.
TEST(HostClock, GoesWithTheKernelsAndNeverBack) {
  HostClock clock;
  std::uint64_t last = 0;
  for (const std::uint64_t end = kernel_ns() + 60'000'000; kernel_ns() < end;) {
    const std::uint64_t before = kernel_ns(), now = clock.now(), after = kernel_ns();
    ASSERT_GE(now + 5000, before);
    ASSERT_LE(now, after + 5000);
    ASSERT_GE(now, last);
    last = now;
  }
}

struct Span {
  std::uint64_t number, count, begun_ns, took_ns;
};

std::vector<Span> spans(const File& file) {
  std::vector<Span> all;
  for (std::uint64_t n = 0; n < file.header().times; ++n) {
    const Time& time = file.time(n);
    all.push_back({time.number, File::count(file.call(time.number)), time.begun_ns, time.what & 0xffffffffffff});
    EXPECT_EQ(time.sequence, file.call(time.number).sequence);
  }
  return all;
}

// Of a single call: the fake GPU takes a microsecond an element, in a float of milliseconds.
void expect_own_time(const Span& span) {
  EXPECT_NEAR(double(span.took_ns), double(span.count) * 1000, 200) << span.number;
}

TEST(Times, AreThoseOfTheGpuForEveryCallOutsideOfCaptures) {
  const Folder folder;
  const Finished done = record(folder, "times", "BUSBW_RECORD_TIMES=all");
  ASSERT_EQ(done.status, 0) << done.output;
  const File file(folder.path);
  const std::vector<Span> found = spans(file);
  ASSERT_EQ(found.size(), 23U);
  EXPECT_EQ(file.header().times_missed, 0U);
  for (const Span& span : found) {
    if (span.number > 20) continue;
    expect_own_time(span);
    const std::uint64_t host_ns = (file.call(span.number).when & 0xffffffffffff) * tick_ns;
    EXPECT_GE(span.begun_ns + 1000, host_ns) << span.number;
  }
  // A call begins when the one before it has ended, by one clock.
  for (std::size_t i = 1; i < 5; ++i) EXPECT_GE(found[i].begun_ns + 3000, found[i - 1].begun_ns + found[i - 1].took_ns);
  for (const Span& span : found) {
    const double wanted = span.number == 21 || span.number == 22 ? 500e3 : span.number == 23 ? 50e3 : 0;
    if (wanted == 0) continue;
    EXPECT_NEAR(double(span.took_ns), wanted, 200) << "calls of a group have the time of its stream";
  }
}

// A thread that takes them is asked for by a word; the program's calls are the same.
TEST(Times, AreTheSameWhereAThreadOfOursTakesThem) {
  const Folder folder;
  const Finished done = record(folder, "times", "BUSBW_RECORD_TIMES=all BUSBW_RECORD_TIMES_ASIDE=1");
  ASSERT_EQ(done.status, 0) << done.output;
  const File file(folder.path);
  const std::vector<Span> found = spans(file);
  ASSERT_EQ(found.size(), 23U);
  EXPECT_EQ(file.header().times_missed, 0U);
  for (const Span& span : found) {
    if (span.number <= 20) expect_own_time(span);
  }
}

TEST(Times, AreOfTheSameCallsOnAllRanks) {
  const Folder folder;
  ASSERT_EQ(record(folder, "times", "BUSBW_RECORD_TIMES=7").status, 0);
  const File file(folder.path);
  std::string numbers;
  for (const Span& span : spans(file)) numbers += std::to_string(span.number) + " ";
  EXPECT_EQ(numbers, "7 14 21 ") << "every seventh collective of a communicator";
}

TEST(Times, AreMissedAndCountedWhereAnotherGpuIsCurrent) {
  const Folder folder;
  ASSERT_EQ(record(folder, "times", "FAKE_CUDA_DEVICE=3 BUSBW_RECORD_TIMES=all").status, 0);
  const File file(folder.path);
  EXPECT_EQ(file.header().times, 0U);
  EXPECT_EQ(file.header().times_missed, 23U);
}

TEST(Times, AreNotTakenUnlessAskedFor) {
  const Folder folder;
  ASSERT_EQ(record(folder, "times").status, 0);
  const File file(folder.path);
  EXPECT_EQ(file.header().times_at, 0U);
  EXPECT_EQ(file.header().times + file.header().times_missed, 0U);
}

TEST(Times, AWordThatMeansNothingIsSaid) {
  const Folder folder;
  const Finished done = record(folder, "times", "BUSBW_RECORD_TIMES=often");
  EXPECT_EQ(done.status, 0) << "the program goes on";
  EXPECT_TRUE(gpu::test::contains(done.output, "BUSBW_RECORD_TIMES is 'often'; it takes all, none, or a number"));
}

}  // namespace
}  // namespace busbw::record::test

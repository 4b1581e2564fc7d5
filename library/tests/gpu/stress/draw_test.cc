// What is drawn: the same on every rank, inside its limits, and of every sort.
#include "library/tests/gpu/stress/draw.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "engine/collectives/collective.h"
#include "engine/core/error.h"
#include "library/tests/gpu/stress/lane.h"

namespace busbw::stress {
namespace {

Limits some_limits() {
  return {.kinds = {{.name = "all_reduce", .weight = 6, .reduces = true},
                    {.name = "alltoall", .weight = 3, .in_place = false, .part_per_rank = true},
                    {.name = "broadcast", .weight = 1, .rooted = true}},
          .types = {all_data_types.begin(), all_data_types.end()},
          .ops = {all_red_ops.begin(), all_red_ops.end()},
          .communicators = {4, 4, 3, 2},
          .largest = 1U << 20};
}

std::vector<Batch> draw(const Limits& limits, std::uint64_t seed, int batches) {
  Drawer drawer(limits, seed);
  std::vector<Batch> all;
  for (int i = 0; i < batches; ++i) all.push_back(drawer.next());
  return all;
}

std::string text(const Batch& batch) {
  std::string out = format("%d/%d", int(batch.manner), batch.graph);
  for (const Drawn& c : batch.calls)
    out += format(" %llu:%d,%d,%d,%d,%d,%zu,%u,%u", static_cast<unsigned long long>(c.number), c.kind, c.communicator,
                  c.stream, int(c.type), int(c.op), c.count, c.seed, c.layout);
  return out;
}

TEST(StressDraw, EveryRankDrawsTheSameFromOneSeedAndOthersFromAnother) {
  std::string one;
  std::string again;
  std::string other;
  for (const Batch& batch : draw(some_limits(), 7, 200)) one += text(batch);
  for (const Batch& batch : draw(some_limits(), 7, 200)) again += text(batch);
  for (const Batch& batch : draw(some_limits(), 8, 200)) other += text(batch);
  EXPECT_EQ(one, again);
  EXPECT_NE(one, other);
}

TEST(StressDraw, CallsStayInsideTheBuffersTheCommunicatorsAndTheStreams) {
  const Limits limits = some_limits();
  for (const Batch& batch : draw(limits, 1, 5000)) {
    ASSERT_FALSE(batch.calls.empty());
    ASSERT_LE(batch.calls.size(), std::size_t{calls_per_batch});
    for (const Drawn& call : batch.calls) {
      const Kind& kind = limits.kinds.at(std::size_t(call.kind));
      const int ranks = limits.communicators.at(std::size_t(call.communicator));
      const std::size_t parts = kind.part_per_rank ? std::size_t(ranks) : 1;
      ASSERT_LE(call.count * parts * element_size(call.type), limits.largest) << text(batch);
      ASSERT_LT(call.root, ranks);
      ASSERT_TRUE(call.root == 0 || kind.rooted);
      ASSERT_TRUE(!call.in_place || kind.in_place);
      ASSERT_LT(call.stream, limits.streams);
    }
  }
}

TEST(StressDraw, TwoCommunicatorsInFlightShareAStreamUnlessOverlapIsAskedFor) {
  Limits limits = some_limits();
  const auto overlapping = [&] {
    int found = 0;
    for (const Batch& batch : draw(limits, 3, 3000)) {
      std::set<int> streams;
      std::set<int> communicators;
      for (const Drawn& call : batch.calls) {
        streams.insert(call.stream);
        communicators.insert(call.communicator);
      }
      found += streams.size() > 1 && communicators.size() > 1;
    }
    return found;
  };
  EXPECT_EQ(overlapping(), 0);
  limits.overlap = true;
  EXPECT_GT(overlapping(), 0);
}

TEST(StressDraw, AGraphIsCapturedBeforeItIsReplayedAndKeepsItsCalls) {
  std::vector<std::vector<Drawn>> kept(3);
  int replayed = 0;
  for (const Batch& batch : draw(some_limits(), 5, 3000)) {
    if (batch.manner == Manner::captured) kept.at(std::size_t(batch.graph)) = batch.calls;
    if (batch.manner != Manner::replayed) continue;
    ++replayed;
    const std::vector<Drawn>& calls = kept.at(std::size_t(batch.graph));
    ASSERT_EQ(calls.size(), batch.calls.size());
    for (std::size_t i = 0; i < calls.size(); ++i) {
      ASSERT_EQ(calls[i].count, batch.calls[i].count);
      ASSERT_EQ(calls[i].layout, batch.calls[i].layout);
      ASSERT_NE(calls[i].seed, batch.calls[i].seed) << "other inputs, or a replay that did nothing would pass";
    }
  }
  EXPECT_GT(replayed, 300);
}

TEST(StressDraw, WithoutGraphsNoneAreDrawn) {
  Limits limits = some_limits();
  limits.graphs = 0;
  for (const Batch& batch : draw(limits, 5, 500)) ASSERT_EQ(batch.graph, -1);
}

TEST(StressDraw, EverySortComesUp) {
  std::set<int> manners;
  std::set<int> types;
  std::set<int> ops;
  std::set<int> kinds;
  std::set<int> exponents;
  bool empty = false;
  bool odd = false;
  for (const Batch& batch : draw(some_limits(), 11, 5000)) {
    manners.insert(int(batch.manner));
    for (const Drawn& call : batch.calls) {
      types.insert(int(call.type));
      ops.insert(int(call.op));
      kinds.insert(call.kind);
      empty = empty || call.count == 0;
      odd = odd || call.count % 2 == 1;
      int exponent = 0;
      while ((call.count >> exponent) > 1) ++exponent;
      exponents.insert(exponent);
    }
  }
  EXPECT_EQ(manners.size(), 4U);
  EXPECT_EQ(types.size(), all_data_types.size());
  EXPECT_EQ(ops.size(), all_red_ops.size());
  EXPECT_EQ(kinds.size(), 3U);
  EXPECT_GE(exponents.size(), 20U);
  EXPECT_TRUE(empty);
  EXPECT_TRUE(odd);
}

TEST(StressDraw, RanksAgreeOnShiftsOrNotAsTheLayoutSays) {
  bool ranks_differ = false;
  bool sides_differ = false;
  for (std::uint32_t layout = 0; layout < 400; ++layout) {
    const Drawn call{.layout = layout * 7919U};
    const Shifts zero = shifts(call, 0);
    const Shifts one = shifts(call, 1);
    ASSERT_LE(std::max({zero.send, zero.recv, one.send, one.recv}), most_shift);
    if ((call.layout & 3U) != 3) {
      ASSERT_EQ(zero.send, one.send);
      ASSERT_EQ(zero.recv, one.recv);
    }
    ranks_differ = ranks_differ || zero.send != one.send;
    sides_differ = sides_differ || zero.send != zero.recv;
  }
  EXPECT_TRUE(ranks_differ);
  EXPECT_TRUE(sides_differ);
}

Limits restless_limits() {
  Limits limits = some_limits();
  limits.restless = limits.splits = limits.aborts = true;
  limits.streams = 6;
  return limits;
}

TEST(StressDraw, WithoutRestlessnessNothingComesOrGoes) {
  for (const Batch& batch : draw(some_limits(), 3, 1000)) {
    ASSERT_EQ(batch.renewal.communicator, -1);
    ASSERT_FALSE(batch.beside);
    for (const Drawn& call : batch.calls) ASSERT_FALSE(call.stream_goes);
  }
}

TEST(StressDraw, AGraphBesideOtherCallsIsAKeptOneOnTheSameCommunicator) {
  std::vector<std::vector<Drawn>> kept(3);
  int besides = 0;
  int renewed = 0;
  int aborted = 0;
  int split = 0;
  int gone = 0;
  for (const Batch& batch : draw(restless_limits(), 5, 5000)) {
    if (batch.renewal.communicator >= 0) {
      ++renewed;
      aborted += batch.renewal.aborts;
      split += batch.renewal.splits;
      ASSERT_TRUE(batch.renewal.communicator > 0 || !batch.renewal.splits);
      for (const int graph : batch.renewal.graphs) kept.at(std::size_t(graph)).clear();
      for (const std::vector<Drawn>& calls : kept)
        for (const Drawn& call : calls) ASSERT_NE(call.communicator, batch.renewal.communicator);
    }
    if (batch.manner == Manner::captured) kept.at(std::size_t(batch.graph)) = batch.calls;
    if (batch.manner == Manner::replayed) ASSERT_FALSE(kept.at(std::size_t(batch.graph)).empty());
    ASSERT_FALSE(batch.calls.back().stream_goes) << "whose end would show that all calls have ended?";
    for (const Drawn& call : batch.calls) {
      if (!call.stream_goes) continue;
      ++gone;
      ASSERT_GE(only_communicator(batch.calls), 0);
      for (const std::vector<Drawn>& calls : kept) ASSERT_TRUE(calls.empty() || calls.front().stream != call.stream);
    }
    if (!batch.beside) continue;
    ++besides;
    ASSERT_NE(batch.beside->graph, batch.graph);
    const std::vector<Drawn>& calls = kept.at(std::size_t(batch.beside->graph));
    ASSERT_EQ(calls.size(), batch.beside->calls.size());
    ASSERT_EQ(only_communicator(calls), only_communicator(batch.calls));
    ASSERT_GE(only_communicator(calls), 0);
  }
  EXPECT_GT(besides, 200);
  EXPECT_GT(renewed, 50);
  EXPECT_GT(aborted, 5);
  EXPECT_GT(split, 10);
  EXPECT_GT(gone, 100);
}

TEST(StressDraw, EveryRankDrawsTheSameRestlessness) {
  const auto all = [] {
    std::string out;
    for (const Batch& batch : draw(restless_limits(), 7, 500)) {
      out += text(batch) + format(" r%d%d%d", batch.renewal.communicator, batch.renewal.aborts, batch.renewal.splits);
      if (batch.beside) out += " beside " + text(*batch.beside);
    }
    return out;
  };
  EXPECT_EQ(all(), all());
}

TEST(StressGeometry, CountsOfGatherLikeCollectivesNeedNotBeMultiplesOf16Bytes) {
  const Geometry gather = geometry_of(*make_collective("all_gather"), DataType::float16, {2, 3}, 5);
  EXPECT_EQ(gather.count, 5U);
  EXPECT_EQ(gather.send_elements, 5U);
  EXPECT_EQ(gather.recv_elements, 15U);
  EXPECT_EQ(gather.in_place_send, 10U);
  const Geometry scatter = geometry_of(*make_collective("reduce_scatter"), DataType::float64, {1, 4}, 3);
  EXPECT_EQ(scatter.send_elements, 12U);
  EXPECT_EQ(scatter.recv_elements, 3U);
  EXPECT_EQ(scatter.in_place_recv, 3U);
  const Geometry whole = geometry_of(*make_collective("all_reduce"), DataType::int8, {1, 4}, 7);
  EXPECT_EQ(whole.send_elements, 7U);
  EXPECT_EQ(whole.span_elements, 7U);
}

}  // namespace
}  // namespace busbw::stress

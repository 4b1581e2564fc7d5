// Staged copies on simulated streams: what every rank's streams do is done in any order that streams allow, copies
// arrive in parts, and every result must be the reference's. Then the words between them as a small model, in every
// interleaving.
#include "library/gpu/run/staged.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "library/gpu/kernels/range.h"
#include "library/tests/cpu/reference.h"
#include "library/tests/gpu/calls.h"
#include "library/tests/gpu/kernels/search.h"
#include "library/tests/gpu/run/words_model.h"
namespace busbw::gpu::test {
namespace {

constexpr Collective staged_collectives[] = {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather,
                                             Collective::all_to_all};

// What a simulated stream does next; a copy is done in parts, front to back or back to front.
struct Stream {
  std::vector<StagedStep> steps;
  std::size_t next = 0;
  std::uint64_t copied = 0;
  bool done() const { return next == steps.size(); }
};

// One call of one rank: three streams, of which the second and third begin with the call and end before it does.
struct Running {
  std::array<Stream, 3> streams;
  bool done() const {
    return std::all_of(streams.begin(), streams.end(), [](const Stream& one) { return one.done(); });
  }
};

struct Machine {
  explicit Machine(const Layout& layout) : layout(layout) {
    for (int rank = 0; rank < layout.ranks; ++rank) {
      // Any bytes may lie there but in the words.
      memory.emplace_back(layout.bytes, static_cast<unsigned char>(0x5a));
      std::memset(memory.back().data() + layout.words_start, 0, Layout::words_bytes);
    }
  }
  std::array<unsigned char*, max_ranks> scratch() {
    std::array<unsigned char*, max_ranks> all{};
    for (int rank = 0; rank < layout.ranks; ++rank) all[std::size_t(rank)] = memory[std::size_t(rank)].data();
    return all;
  }

  Layout layout;
  std::vector<Bytes> memory;
};

// The sum that the kernel makes, by the reference: a reduce-scatter of one block.
void add(const AddArguments& a, ncclDataType_t type, Reduction reduction) {
  const std::size_t element = cpu::element_size(type);
  Inputs inputs;
  for (int source = 0; source < a.ranks; ++source) {
    const auto* from = source == a.rank ? static_cast<const unsigned char*>(a.own) : a.pushed[source];
    inputs.send.emplace_back(from, from + a.bytes);
  }
  cpu::Collective one;
  one.kind = CollectiveKind::all_reduce;
  one.type = type;
  one.reduction = reduction;
  one.count = a.bytes / element;
  const Bytes sum = expected(one, inputs, 0);
  std::memcpy(a.result, sum.data(), a.bytes);
  if (a.offered) std::memcpy(a.offered, sum.data(), a.bytes);
}

// Does a part of the next step; false where it waits.
bool advance(Stream& stream, const Call& call, std::mt19937& random) {
  const StagedStep& step = stream.steps[stream.next];
  const auto words_begin = step.words.begin();
  const auto words_end = words_begin + step.word_count;
  switch (step.kind) {
    case StagedStep::Kind::await:
      if (!std::all_of(words_begin, words_end, [](const auto& word) { return *word.at == word.value; })) return false;
      std::for_each(words_begin, words_end, [](const auto& word) { *word.at = 1 - word.value; });
      break;
    case StagedStep::Kind::see:
      if (!std::all_of(words_begin, words_end, [](const auto& word) { return *word.at == word.value; })) return false;
      break;
    case StagedStep::Kind::set:
      for (auto word = words_begin; word != words_end; ++word) {
        EXPECT_EQ(*word->at, 1 - word->value) << "a word is told again that nobody has seen";
        *word->at = word->value;
      }
      break;
    case StagedStep::Kind::copy: {
      const std::uint64_t part = std::min<std::uint64_t>(step.bytes - stream.copied, 1 + random() % step.bytes);
      std::memcpy(static_cast<unsigned char*>(step.to) + stream.copied,
                  static_cast<const unsigned char*>(step.from) + stream.copied, part);
      stream.copied += part;
      if (stream.copied < step.bytes) return true;
      stream.copied = 0;
      break;
    }
    case StagedStep::Kind::add:
      add(step.sum, call.collective.type, call.collective.reduction);
      break;
  }
  ++stream.next;
  return true;
}

using Lent = std::array<const unsigned char*, max_ranks>;

std::vector<StagedStep> plan_of(Machine& machine, const Call& call, int rank, const KernelArguments& arguments,
                                int pieces, const Lent* lent = nullptr) {
  const std::size_t element = cpu::element_size(call.collective.type);
  StagedRequest request{.collective = call.kind.collective,
                        .send = arguments.send,
                        .recv = arguments.recv,
                        .bytes = call.collective.count * element,
                        .op = arguments.op,
                        .rank = rank,
                        .pieces = pieces,
                        .scratch = machine.scratch(),
                        .lent = lent,
                        .layout = machine.layout};
  return staged_plan(request);
}

// No pieces: the ranks read from each other's own buffers.
Running begin(Machine& machine, const Call& call, int rank, const std::vector<KernelArguments>& arguments, int pieces) {
  Running running;
  Lent lent{};
  for (std::size_t peer = 0; peer < arguments.size(); ++peer) {
    lent[peer] = static_cast<const unsigned char*>(arguments[peer].send);
  }
  const KernelArguments& mine = arguments[std::size_t(rank)];
  for (StagedStep& step : plan_of(machine, call, rank, mine, std::max(1, pieces), pieces == 0 ? &lent : nullptr)) {
    running.streams[step.stream].steps.push_back(step);
  }
  return running;
}

// Calls one after the other on each rank, and whole ranks at any speed. Throws where all wait.
void run(Machine& machine, std::vector<Call>& calls, const std::vector<int>& pieces, std::mt19937& random) {
  const int ranks = machine.layout.ranks;
  HostArena arena;
  std::vector<std::vector<KernelArguments>> arguments;
  for (Call& call : calls) {
    auto& of_call = arguments.emplace_back();
    for (int rank = 0; rank < ranks; ++rank) of_call.push_back(prepare(call, rank, ranks, arena, random));
  }
  std::vector<std::size_t> at(std::size_t(ranks), 0);
  std::vector<std::optional<Running>> running{std::size_t(ranks)};
  int idle = 0;
  while (std::any_of(at.begin(), at.end(), [&](std::size_t call) { return call < calls.size(); })) {
    const auto rank = std::size_t(random() % std::uint32_t(ranks));
    if (at[rank] == calls.size()) continue;
    const Call& call = calls[at[rank]];
    if (!running[rank]) running[rank] = begin(machine, call, int(rank), arguments[at[rank]], pieces[at[rank]]);
    Stream& stream = running[rank]->streams[random() % 3];
    // One that stands still for a while: the others go on as far as they can.
    for (std::uint32_t steps = random() % 8; steps > 0 && !stream.done(); --steps) {
      if (!advance(stream, call, random)) break;
      idle = 0;
    }
    if (running[rank]->done()) {
      running[rank].reset();
      // The buffer is the program's again: no peer may still read there.
      if (!call.in_place) std::memset(calls[at[rank]].send[rank].data(), 0xee, call.inputs.send[rank].size());
      ++at[rank];
    }
    ASSERT_LT(++idle, 100000) << "all wait";
  }
  for (Call& call : calls) check(call, ranks);
}

Call staged_call(Collective collective, const Layout& layout, std::mt19937& random) {
  constexpr Sizes sizes{.most_elements = 900, .least_threads = 1, .threads_of_a_stage = 1};
  Call call = random_call({collective, Algorithm::staged, Protocol::copy}, layout, sizes, random);
  call.channels = 1;
  return call;
}

void run_some(std::uint32_t seed, int count, const std::optional<Collective>& only) {
  std::mt19937 random(seed);
  const int ranks = 2 + static_cast<int>(seed % 7);
  Machine machine(Layout::with(ranks, 1, 8, 64, 16 * (std::uint64_t(ranks) + random() % 40)));
  std::vector<Call> calls;
  std::vector<int> pieces;
  for (int i = 0; i < count; ++i) {
    calls.push_back(staged_call(only ? *only : staged_collectives[random() % 4], machine.layout, random));
    const Call& call = calls.back();
    const std::uint64_t bytes = call.collective.count * cpu::element_size(call.collective.type);
    const bool lent = !reduces(call.kind.collective) && random() % 2 == 0;
    pieces.push_back(lent ? 0 : int(least_pieces(call.kind.collective, bytes, machine.layout) + random() % 4));
  }
  SCOPED_TRACE("seed " + std::to_string(seed));
  run(machine, calls, pieces, random);
}

class StagedPlans : public ::testing::TestWithParam<Collective> {};

TEST_P(StagedPlans, GiveTheReferencesBitsInAnyOrderOfEvents) {
  for (std::uint32_t seed = 0; seed < 140 && !HasFatalFailure(); ++seed) run_some(seed, 3, GetParam());
}
INSTANTIATE_TEST_SUITE_P(Each, StagedPlans, ::testing::ValuesIn(staged_collectives),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST(StagedPlansMixed, FollowOneAnotherInAnyOrder) {
  for (std::uint32_t seed = 1000; seed < 1140 && !HasFatalFailure(); ++seed) run_some(seed, 10, std::nullopt);
}

TEST(StagedPlans, AreInTheCallsStreamWhereThereIsOnePiece) {
  Machine machine(Layout::with(3, 1, 8, 64, 4096));
  for (const Collective collective : staged_collectives) {
    std::vector<unsigned char> memory(3000);
    const StagedRequest request{.collective = collective,
                                .send = memory.data(),
                                .recv = memory.data() + 1500,
                                .bytes = 480,
                                .rank = 1,
                                .pieces = 1,
                                .scratch = machine.scratch(),
                                .layout = machine.layout};
    for (const StagedStep& step : staged_plan(request)) EXPECT_EQ(step.stream, StagedStep::call) << name(collective);
  }
}

// Streams may share a hardware channel (CUDA_DEVICE_MAX_CONNECTIONS=1), and copies to peers one queue: what was issued
// first then holds up the rest. A rank goes on by itself here as far as it can, so that whoever waits, waits for all.
TEST(StagedPlans, EndWhereEachRanksStepsAreOneQueue) {
  std::mt19937 random(9);
  for (const Collective collective : staged_collectives) {
    for (const int more : {0, 1, 2, 6}) {
      const int ranks = 2 + more % 3;
      Machine machine(Layout::with(ranks, 1, 8, 64, 4096));
      Call call = staged_call(collective, machine.layout, random);
      const std::uint64_t bytes = call.collective.count * cpu::element_size(call.collective.type);
      const int pieces = int(least_pieces(collective, bytes, machine.layout)) + more;
      HostArena arena;
      std::vector<Stream> queues;
      for (int rank = 0; rank < ranks; ++rank) {
        const KernelArguments arguments = prepare(call, rank, ranks, arena, random);
        queues.push_back({plan_of(machine, call, rank, arguments, pieces)});
      }
      bool moved = true;
      while (moved) {
        moved = false;
        for (Stream& queue : queues) {
          while (!queue.done() && advance(queue, call, random)) moved = true;
        }
      }
      for (const Stream& queue : queues) EXPECT_TRUE(queue.done()) << name(collective) << " in " << pieces;
      check(call, ranks);
    }
  }
}

// A fetch waits for all peers, and what it would hold up is issued before it.
TEST(StagedPlans, PushTheNextPieceBeforeTheyFetch) {
  Machine machine(Layout::with(2, 1, 8, 64, 4096));
  std::vector<unsigned char> memory(3000);
  const StagedRequest request{.collective = Collective::all_reduce,
                              .send = memory.data(),
                              .recv = memory.data(),
                              .bytes = 2880,
                              .rank = 0,
                              .pieces = 3,
                              .scratch = machine.scratch(),
                              .layout = machine.layout};
  std::string order;
  for (const StagedStep& step : staged_plan(request)) {
    if (step.kind == StagedStep::Kind::copy) order += step.stream == StagedStep::push ? 'p' : 'f';
    if (step.kind == StagedStep::Kind::add) order += '+';
  }
  EXPECT_EQ(order, "pp+fp+f+f");
}

// The fewest pieces are the fewest: every copy stays in its slot with them, and one does not with one piece less.
TEST(StagedPlans, FitIntoTheScratch) {
  std::mt19937 random(3);
  for (int round = 0; round < 3000; ++round) {
    const int ranks = 2 + int(random() % 7);
    const Layout layout = Layout::with(ranks, 1, 8, 64, 16 * (std::uint64_t(ranks) + random() % 60));
    const Collective collective = staged_collectives[random() % 4];
    const std::uint64_t bytes = 1 + random() % 20000;
    const std::uint64_t pieces = least_pieces(collective, bytes, layout);
    const std::uint64_t room = layout.staged_slot(collective == Collective::all_gather ? 1 : ranks - 1) / 16;
    const auto longest = [&](std::uint64_t of) {
      std::uint64_t most = 0;
      for (std::uint64_t piece = 0; piece < of; ++piece) {
        const Range range = Range{0, packs_of(bytes, 16)}.part(piece, of);
        const std::uint64_t shares = collective == Collective::all_reduce ? std::uint64_t(ranks) : 1;
        for (std::uint64_t share = 0; share < shares; ++share) {
          most = std::max(most, range.part(share, shares).size());
        }
      }
      return most;
    };
    EXPECT_LE(longest(pieces), room);
    if (pieces > 1) {
      EXPECT_GT(longest(pieces - 1), room) << ranks << ' ' << bytes << ' ' << name(collective);
    }
  }
}

// Calls that need not be all-reduces: in those, each rank hears from all others between any two uses of a word anyway.
std::string found_in_any_sequence(const WordsModel& model) {
  std::string wrong;
  std::size_t states = 0;
  for (int sequence = 0; sequence < 64; ++sequence) {
    WordsModel one = model;
    for (int call = 0, rest = sequence; call < 3; ++call, rest /= 4) {
      one.calls_made[std::size_t(call)] = staged_collectives[rest % 4];
    }
    const model::Verdict verdict = model::search(one);
    if (!verdict.wrong.empty()) wrong += verdict.wrong + "\n" + verdict.trace;
    states += verdict.states;
  }
  EXPECT_GT(states, 10000u);
  return wrong;
}

TEST(StagedWords, KeepCallsApartInEveryInterleaving) { EXPECT_EQ(found_in_any_sequence({}), ""); }

TEST(StagedWords, AreAllNeeded) {
  EXPECT_NE(found_in_any_sequence({.waits_for_vacant = false}), "");
  EXPECT_NE(found_in_any_sequence({.waits_for_fetched = false}), "");
  EXPECT_NE(found_in_any_sequence({.sees_fetched = false}), "");
}

}  // namespace
}  // namespace busbw::gpu::test

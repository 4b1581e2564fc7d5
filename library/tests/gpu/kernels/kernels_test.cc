// Every kernel on the simulated machine, against the plain reference: all types and operations, any alignment, in place
// and out of place, one call after another with different kernels and grids, under many orders of events.
#include <gtest/gtest.h>

#include "library/gpu/kernels/ll.h"
#include "library/gpu/kernels/meet.h"
#include "library/gpu/kernels/sentinel.h"
#include "library/gpu/kernels/sentinel_direct.h"
#include "library/gpu/kernels/simple.h"
#include "library/tests/gpu/calls.h"
#include "library/tests/gpu/kernels/simulator.h"

namespace busbw::gpu::test {
namespace {

template <template <typename> class Entry>
Kernel of_type(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
      return Entry<std::int8_t>::run;
    case ncclUint8:
      return Entry<std::uint8_t>::run;
    case ncclInt32:
      return Entry<std::int32_t>::run;
    case ncclUint32:
      return Entry<std::uint32_t>::run;
    case ncclInt64:
      return Entry<std::int64_t>::run;
    case ncclUint64:
      return Entry<std::uint64_t>::run;
    case ncclFloat16:
      return Entry<Half>::run;
    case ncclFloat32:
      return Entry<float>::run;
    case ncclFloat64:
      return Entry<double>::run;
    case ncclBfloat16:
      return Entry<Bfloat16>::run;
    case ncclFloat8e4m3:
      return Entry<F8e4m3>::run;
    case ncclFloat8e5m2:
      return Entry<F8e5m2>::run;
    case ncclNumTypes:
      break;
  }
  return nullptr;
}

// With the variant that is for so many ranks.
#define BUSBW_ENTRY(NAME, BODY)                                                           \
  template <typename T>                                                                   \
  struct NAME {                                                                           \
    static void run(const KernelArguments& a) {                                           \
      return a.ranks <= 2 ? BODY<T, 2>(a) : a.ranks <= 4 ? BODY<T, 4>(a) : BODY<T, 8>(a); \
    }                                                                                     \
  }
#define BUSBW_MOVE(NAME, BODY) \
  void NAME(const KernelArguments& a) { return a.ranks <= 2 ? BODY<2>(a) : a.ranks <= 4 ? BODY<4>(a) : BODY<8>(a); }
BUSBW_ENTRY(OneShotLl, all_reduce_one_shot_ll);
BUSBW_ENTRY(TwoShotLl, all_reduce_two_shot_ll);
BUSBW_ENTRY(TwoShotSentinel, all_reduce_two_shot_sentinel);
BUSBW_ENTRY(TwoShotSimple, all_reduce_two_shot_simple);
BUSBW_ENTRY(ReduceScatterLl, reduce_scatter_ll);
BUSBW_ENTRY(ReduceScatterSentinel, reduce_scatter_sentinel);
BUSBW_ENTRY(ReduceScatterSimple, reduce_scatter_simple);
BUSBW_MOVE(gather_ll, all_gather_ll)
BUSBW_MOVE(gather_sentinel, all_gather_sentinel)
BUSBW_MOVE(gather_simple, all_gather_simple)
BUSBW_MOVE(exchange_ll, all_to_all_ll)
BUSBW_MOVE(exchange_sentinel, all_to_all_sentinel)
BUSBW_MOVE(exchange_simple, all_to_all_simple)
BUSBW_MOVE(spread_ll, broadcast_ll)
BUSBW_MOVE(spread_sentinel, broadcast_sentinel)
BUSBW_MOVE(spread_simple, broadcast_simple)

Kernel by_protocol(Protocol protocol, Kernel ll, Kernel sentinel, Kernel simple) {
  switch (protocol) {
    case Protocol::ll:
      return ll;
    case Protocol::sentinel:
      return sentinel;
    case Protocol::simple:
      return simple;
    case Protocol::copy:
      break;
  }
  return nullptr;
}

Kernel kernel_of(const KernelKind& kind, ncclDataType_t type) {
  switch (kind.collective) {
    case Collective::all_reduce:
      if (kind.algorithm == Algorithm::one_shot) return of_type<OneShotLl>(type);
      return by_protocol(kind.protocol, of_type<TwoShotLl>(type), of_type<TwoShotSentinel>(type),
                         of_type<TwoShotSimple>(type));
    case Collective::reduce_scatter:
      return by_protocol(kind.protocol, of_type<ReduceScatterLl>(type), of_type<ReduceScatterSentinel>(type),
                         of_type<ReduceScatterSimple>(type));
    case Collective::all_gather:
      return by_protocol(kind.protocol, gather_ll, gather_sentinel, gather_simple);
    case Collective::all_to_all:
      return by_protocol(kind.protocol, exchange_ll, exchange_sentinel, exchange_simple);
    case Collective::broadcast:
      return by_protocol(kind.protocol, spread_ll, spread_sentinel, spread_simple);
  }
  return nullptr;
}

constexpr std::uint32_t sentinel_packs = 24;
constexpr std::uint32_t slot_bytes = 64;
constexpr int most_channels = 3;
constexpr Sizes sizes{.most_elements = 600, .least_threads = 1, .threads_of_a_stage = warps_of_a_stage * warp_threads};

Launch launch(const Call& call, const KernelArguments& arguments) {
  return {kernel_of(call.kind, call.collective.type), call.channels, call.threads, arguments};
}

Layout small_layout(int ranks) { return Layout::with(ranks, most_channels, sentinel_packs, slot_bytes); }

// Ranks differ in when they start each call; the order of calls is the same on all.
void run(Machine& machine, const Layout& layout, std::vector<Call>& calls, std::mt19937& random) {
  HostArena arena;
  for (Call& call : calls)
    for (int rank = 0; rank < layout.ranks; ++rank)
      machine.launch(rank, launch(call, prepare(call, rank, layout.ranks, arena, random)));
  machine.run();
  for (Call& call : calls) check(call, layout.ranks);
}

class Kernels : public ::testing::TestWithParam<KernelKind> {};

TEST_P(Kernels, GiveTheReferencesBitsInAnyOrderOfEvents) {
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    const Layout layout = small_layout(2 + static_cast<int>(seed % 4));
    std::vector<Call> calls;
    for (int i = 0; i < 6; ++i) calls.push_back(random_call(GetParam(), layout, sizes, random));
    SCOPED_TRACE("seed " + std::to_string(seed));
    Machine machine(layout, seed);
    run(machine, layout, calls, random);
    if (HasFatalFailure()) return;
  }
}

std::string test_name(const ::testing::TestParamInfo<KernelKind>& info) {
  return std::string(name(info.param.collective)) + '_' + name(info.param.algorithm) + '_' + name(info.param.protocol);
}
INSTANTIATE_TEST_SUITE_P(Each, Kernels, ::testing::ValuesIn(kernel_kinds), test_name);

TEST(KernelsMixed, FollowOneAnotherInAnyOrder) {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const Layout layout = small_layout(2 + static_cast<int>(seed % 3));
    std::vector<Call> calls;
    for (int i = 0; i < 12; ++i)
      calls.push_back(random_call(kernel_kinds[random() % std::size(kernel_kinds)], layout, sizes, random));
    SCOPED_TRACE("seed " + std::to_string(seed));
    Machine machine(layout, seed);
    run(machine, layout, calls, random);
    if (HasFatalFailure()) return;
  }
}

std::vector<Call> calls_of(Protocol protocol, int count, const Layout& layout, std::mt19937& random) {
  std::vector<Call> calls;
  while (int(calls.size()) < count) {
    const KernelKind kind = kernel_kinds[random() % std::size(kernel_kinds)];
    if (kind.protocol == protocol) calls.push_back(random_call(kind, layout, sizes, random));
  }
  return calls;
}

// Those that empty slots for each other.
TEST(SentinelKernels, FollowOneAnotherInAnyOrder) {
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    const Layout layout = small_layout(2 + static_cast<int>(seed % 3));
    std::vector<Call> calls = calls_of(Protocol::sentinel, 12, layout, random);
    SCOPED_TRACE("seed " + std::to_string(seed));
    Machine machine(layout, seed);
    run(machine, layout, calls, random);
    if (HasFatalFailure()) return;
  }
}

TEST(KernelsMixed, WorkOnEightRanks) {
  std::mt19937 random(1);
  const Layout layout = small_layout(8);
  std::vector<Call> calls;
  for (const KernelKind& kind : kernel_kinds) calls.push_back(random_call(kind, layout, sizes, random));
  Machine machine(layout, 1);
  run(machine, layout, calls, random);
}

// Channels that have made nearly 2^32 calls, the first ones larger than all since: their packets are still there.
void age(Machine& machine, const Layout& layout) {
  for (int rank = 0; rank < layout.ranks; ++rank) {
    for (int channel = 0; channel < layout.channels; ++channel) {
      machine.state(rank, channel).ll_epoch = last_epoch - 4;
      for (int line = 0; line < ports * ll_sets * layout.ranks; ++line) {
        const int port = line / (ll_sets * layout.ranks);
        const std::uint32_t epoch = first_epoch + static_cast<std::uint32_t>(line / layout.ranks % ll_sets);
        const std::uint64_t old = static_cast<std::uint64_t>(epoch) << 32 | 0x5a5a5a5a;
        unsigned char* packets = machine.scratch(rank) + layout.ll(channel, port, epoch, line % layout.ranks);
        for (std::uint32_t i = 0; i < 2 * ll_packets; ++i) std::memcpy(packets + 8 * i, &old, 8);
      }
    }
  }
}

TEST(LlKernels, GoOnAcrossTheWrapOfTheEpoch) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    const Layout layout = small_layout(3);
    std::vector<Call> calls = calls_of(Protocol::ll, 8, layout, random);
    SCOPED_TRACE("seed " + std::to_string(seed));
    Machine machine(layout, seed);
    age(machine, layout);
    run(machine, layout, calls, random);
    if (HasFatalFailure()) return;
  }
}

TEST(Kernels, EndWhenAPeerIsLost) {
  for (const KernelKind& kind : kernel_kinds) {
    std::mt19937 random(7);
    const Layout layout = small_layout(3);
    Call call = random_call(kind, layout, sizes, random);
    Machine machine(layout, 7);
    HostArena arena;
    for (int rank = 0; rank < 2; ++rank)
      machine.launch(rank, launch(call, prepare(call, rank, layout.ranks, arena, random)));
    machine.set_abort();
    EXPECT_NO_THROW(machine.run()) << name(kind.collective);
  }
}

// Everybody that leaves a meeting finds what everybody brought to it.
void bring_and_look(const KernelArguments& a) {
  auto* brought = static_cast<std::uint32_t*>(a.recv);  // [ranks], the same memory for all
  if (thread_index() == 0) brought[a.rank] = static_cast<std::uint32_t>(a.count);
  block_sync();
  meet(a);
  if (thread_index() == 0) {
    for (int rank = 0; rank < a.ranks; ++rank) {
      if (brought[rank] != a.count && brought[rank] != a.count + 1) brought[a.ranks] = 1;
    }
  }
}

TEST(Meetings, AreLeftWhenAllHaveCome) {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    const int ranks = 2 + static_cast<int>(seed % 7);
    Machine machine(small_layout(ranks), seed);
    std::uint32_t brought[max_ranks + 1] = {};
    for (int rank = 0; rank < ranks; ++rank) {
      // Shortly before the numbers wrap.
      machine.state(rank, 0).meetings = 0xfffffffe;
      std::memset(machine.scratch(rank) + small_layout(ranks).met(0), 0xff, 4 * max_ranks);
      for (int peer = 0; peer < ranks; ++peer) machine.scratch(rank)[small_layout(ranks).met(peer)] = 0xfe;
      for (std::uint32_t number = 1; number <= 6; ++number) {
        Launch launch{.kernel = bring_and_look, .channels = 1, .threads = 8, .arguments = {}};
        launch.arguments.recv = brought;
        launch.arguments.count = number;
        machine.launch(rank, launch);
      }
    }
    machine.run();
    EXPECT_EQ(brought[ranks], 0u) << "seed " << seed;
  }
}

TEST(Meetings, EndWhenAPeerIsLost) {
  Machine machine(small_layout(3), 5);
  for (int rank = 0; rank < 2; ++rank)
    machine.launch(rank, {.kernel = meet, .channels = 1, .threads = 8, .arguments = {}});
  machine.set_abort();
  EXPECT_NO_THROW(machine.run());
}

TEST(Simulator, NamesWaitsThatCannotEnd) {
  std::mt19937 random(7);
  const Layout layout = small_layout(2);
  Call call = random_call(kernel_kinds[0], layout, sizes, random);
  Machine machine(layout, 7);
  HostArena arena;
  machine.launch(0, launch(call, prepare(call, 0, layout.ranks, arena, random)));
  EXPECT_THROW(machine.run(), std::runtime_error);
}

}  // namespace
}  // namespace busbw::gpu::test

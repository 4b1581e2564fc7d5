// Every kernel on the simulated machine, against the plain reference: all types and operations, any alignment, in place
// and out of place, one call after another with different kernels and grids, under many orders of events.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "library/gpu/kernels/ll.h"
#include "library/gpu/kernels/sentinel.h"
#include "library/gpu/kernels/simple.h"
#include "library/gpu/names.h"
#include "library/tests/cpu/reference.h"
#include "library/tests/gpu/simulator.h"

namespace busbw::gpu::test {
namespace {

using cpu::Reduction;
using cpu::test::Bytes;
using cpu::test::Inputs;
using CpuCollective = cpu::Collective;
using cpu::CollectiveKind;

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

#define BUSBW_ENTRY(NAME, BODY)                               \
  template <typename T>                                       \
  struct NAME {                                               \
    static void run(const KernelArguments& a) { BODY<T>(a); } \
  }
BUSBW_ENTRY(OneShotLl, all_reduce_one_shot_ll);
BUSBW_ENTRY(TwoShotLl, all_reduce_two_shot_ll);
BUSBW_ENTRY(TwoShotSentinel, all_reduce_two_shot_sentinel);
BUSBW_ENTRY(TwoShotSimple, all_reduce_two_shot_simple);
BUSBW_ENTRY(ReduceScatterLl, reduce_scatter_ll);
BUSBW_ENTRY(ReduceScatterSimple, reduce_scatter_simple);

Kernel kernel_of(const KernelKind& kind, ncclDataType_t type) {
  const bool ll = kind.protocol == Protocol::ll;
  switch (kind.collective) {
    case Collective::all_reduce:
      if (kind.algorithm == Algorithm::one_shot) return of_type<OneShotLl>(type);
      if (ll) return of_type<TwoShotLl>(type);
      return kind.protocol == Protocol::sentinel ? of_type<TwoShotSentinel>(type) : of_type<TwoShotSimple>(type);
    case Collective::reduce_scatter:
      return ll ? of_type<ReduceScatterLl>(type) : of_type<ReduceScatterSimple>(type);
    case Collective::all_gather:
      return ll ? all_gather_ll : all_gather_simple;
    case Collective::all_to_all:
      return ll ? all_to_all_ll : all_to_all_simple;
    case Collective::broadcast:
      return ll ? broadcast_ll : broadcast_simple;
  }
  return nullptr;
}

CollectiveKind cpu_kind(Collective collective) {
  switch (collective) {
    case Collective::all_reduce:
      return CollectiveKind::all_reduce;
    case Collective::all_gather:
      return CollectiveKind::all_gather;
    case Collective::reduce_scatter:
      return CollectiveKind::reduce_scatter;
    case Collective::all_to_all:
      return CollectiveKind::all_to_all;
    case Collective::broadcast:
      return CollectiveKind::broadcast;
  }
  return CollectiveKind::internal;
}

bool travels_as_sentinel(ncclDataType_t type) {
  return type == ncclFloat16 || type == ncclBfloat16 || type == ncclFloat32;
}

// User memory at any alignment, with bytes around it that must stay as they are.
class Buffer {
 public:
  Buffer(std::size_t bytes, std::size_t misalignment) : memory_(bytes + 128, guard), bytes_(bytes) {
    const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(memory_.data()) + 32;
    data_ = memory_.data() + 32 + (16 - address % 16) % 16 + misalignment;
  }
  unsigned char* data() { return data_; }
  bool is_intact_around() const {
    const auto inside = [&](const unsigned char& byte) { return &byte >= data_ && &byte < data_ + bytes_; };
    return std::all_of(memory_.begin(), memory_.end(),
                       [&](const unsigned char& byte) { return inside(byte) || byte == guard; });
  }

 private:
  static constexpr unsigned char guard = 0xa5;
  Bytes memory_;
  std::size_t bytes_;
  unsigned char* data_ = nullptr;
};

// One call as every rank makes it, with its buffers and what must come out.
struct Call {
  KernelKind kind{};
  CpuCollective collective;
  bool in_place = false;
  int channels = 1;
  int threads = 4;
  Inputs inputs;
  std::vector<Buffer> send;
  std::vector<Buffer> recv;
};

std::size_t own_block(const Call& call, int rank, std::size_t piece) {
  return static_cast<std::size_t>(rank) * piece * (call.kind.collective == Collective::all_gather ? 1 : 0);
}

// In place as NCCL defines it: the smaller buffer is this rank's block of the larger one.
Launch prepare(Call& call, int rank, int ranks, std::mt19937& random) {
  const std::size_t element = cpu::element_size(call.collective.type);
  const std::size_t piece = call.collective.count * element;
  const Bytes& input = call.inputs.send[static_cast<std::size_t>(rank)];
  const std::size_t out_bytes = recv_elements(call.collective, ranks) * element;
  const std::size_t misalignment = random() % 3 == 0 ? random() % (16 / element) * element : 0;
  Buffer& recv = call.recv.emplace_back(std::max(call.in_place ? input.size() : 0, out_bytes), misalignment);
  unsigned char* to = recv.data();
  unsigned char* from = nullptr;
  if (call.in_place) {
    from = to + own_block(call, rank, piece);
    if (call.kind.collective == Collective::reduce_scatter) to += static_cast<std::size_t>(rank) * piece;
    call.send.emplace_back(0, 0);
  } else {
    from = call.send.emplace_back(input.size(), random() % 2 == 0 ? random() % (16 / element) * element : 0).data();
  }
  std::memcpy(from, input.data(), input.size());
  Launch launch{kernel_of(call.kind, call.collective.type), call.channels, call.threads, {}};
  launch.arguments.send = from;
  launch.arguments.recv = to;
  launch.arguments.count = reduces(call.kind.collective) ? call.collective.count : piece;
  launch.arguments.root = call.collective.root;
  launch.arguments.op = static_cast<ReduceOp>(call.collective.reduction);
  return launch;
}

void check(Call& call, int ranks) {
  const std::size_t element = cpu::element_size(call.collective.type);
  for (int rank = 0; rank < ranks; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    const Bytes wanted = expected(call.collective, call.inputs, rank);
    unsigned char* got = call.recv[at].data();
    if (call.in_place && call.kind.collective == Collective::reduce_scatter)
      got += at * call.collective.count * element;
    ASSERT_EQ(std::memcmp(got, wanted.data(), wanted.size()), 0)
        << name(call.kind.collective) << ' ' << name(call.kind.algorithm) << '/' << name(call.kind.protocol) << ' '
        << cpu::type_name(call.collective.type) << ' ' << reduction_name(call.collective.reduction) << " of "
        << call.collective.count << " on rank " << rank << (call.in_place ? " in place" : "") << ", " << call.channels
        << " channels x " << call.threads;
    ASSERT_TRUE(call.recv[at].is_intact_around());
    ASSERT_TRUE(call.send[at].is_intact_around());
  }
}

// What the kernels' callers keep to: room in the slots, and work for every rank in every channel of two shots.
bool fits(const Call& call, const Layout& layout) {
  const std::size_t bytes = call.collective.count * cpu::element_size(call.collective.type);
  const bool two_shot = call.kind.algorithm == Algorithm::two_shot;
  const auto pack = call.kind.protocol == Protocol::ll ? 8u : 16u;
  const std::uint64_t packs = packs_of(bytes, pack) / static_cast<std::uint64_t>(call.channels);
  const std::uint64_t lines = two_shot ? static_cast<std::uint64_t>(layout.ranks) : 1;
  if (two_shot && packs < lines) return false;
  if (call.kind.protocol == Protocol::ll) return packs / lines + 2 <= ll_packets;
  if (call.kind.protocol == Protocol::sentinel) return packs / lines + 2 <= layout.sentinel_packs;
  return true;
}

constexpr std::uint32_t sentinel_packs = 24;
constexpr std::uint32_t slot_bytes = 64;
constexpr int most_channels = 3;

Layout small_layout(int ranks) { return Layout::with(ranks, most_channels, sentinel_packs, slot_bytes); }

Call random_call(const KernelKind& kind, const Layout& layout, std::mt19937& random) {
  Call call;
  do {
    call.kind = kind;
    call.collective.kind = cpu_kind(kind.collective);
    do call.collective.type = static_cast<ncclDataType_t>(random() % ncclNumTypes);
    while (kind.protocol == Protocol::sentinel && !travels_as_sentinel(call.collective.type));
    call.collective.reduction = static_cast<Reduction>(random() % 5);
    call.collective.root = static_cast<int>(random() % static_cast<std::uint32_t>(layout.ranks));
    call.collective.count = 1 + random() % (random() % 3 == 0 ? 600 : 60);
    call.in_place = kind.collective != Collective::all_to_all && random() % 2 == 0;
    call.channels = 1 + static_cast<int>(random() % most_channels);
    call.threads = std::max(layout.ranks, 1 << random() % 4);
  } while (!fits(call, layout));
  call.inputs = cpu::test::random_inputs(call.collective, layout.ranks, static_cast<std::uint32_t>(random()));
  return call;
}

// Ranks differ in when they start each call; the order of calls is the same on all.
void run(Machine& machine, const Layout& layout, std::vector<Call>& calls, std::mt19937& random) {
  for (Call& call : calls)
    for (int rank = 0; rank < layout.ranks; ++rank) machine.launch(rank, prepare(call, rank, layout.ranks, random));
  machine.run();
  for (Call& call : calls) check(call, layout.ranks);
}

class Kernels : public ::testing::TestWithParam<KernelKind> {};

TEST_P(Kernels, GiveTheReferencesBitsInAnyOrderOfEvents) {
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    const Layout layout = small_layout(2 + static_cast<int>(seed % 4));
    std::vector<Call> calls;
    for (int i = 0; i < 6; ++i) calls.push_back(random_call(GetParam(), layout, random));
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
      calls.push_back(random_call(kernel_kinds[random() % std::size(kernel_kinds)], layout, random));
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
  for (const KernelKind& kind : kernel_kinds) calls.push_back(random_call(kind, layout, random));
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
    std::vector<Call> calls;
    for (int i = 0; i < 8; ++i) {
      KernelKind kind;
      do kind = kernel_kinds[random() % std::size(kernel_kinds)];
      while (kind.protocol != Protocol::ll);
      calls.push_back(random_call(kind, layout, random));
    }
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
    Call call = random_call(kind, layout, random);
    Machine machine(layout, 7);
    for (int rank = 0; rank < 2; ++rank) machine.launch(rank, prepare(call, rank, layout.ranks, random));
    machine.set_abort();
    EXPECT_NO_THROW(machine.run()) << name(kind.collective);
  }
}

TEST(Simulator, NamesWaitsThatCannotEnd) {
  std::mt19937 random(7);
  const Layout layout = small_layout(2);
  Call call = random_call(kernel_kinds[0], layout, random);
  Machine machine(layout, 7);
  machine.launch(0, prepare(call, 0, layout.ranks, random));
  EXPECT_THROW(machine.run(), std::runtime_error);
}

}  // namespace
}  // namespace busbw::gpu::test

// The kernel that adds for staged copies, and all-reduce with residual and RMSNorm, on the simulated machine against
// plain references.
#include <gtest/gtest.h>

#include <cmath>

#include "library/gpu/kernels/add.h"
#include "library/gpu/kernels/norm.h"
#include "library/gpu/run/norm.h"
#include "library/tests/gpu/calls.h"
#include "library/tests/gpu/kernels/simulator.h"

namespace busbw::gpu::test {
namespace {

constexpr ncclDataType_t norm_types[] = {ncclFloat16, ncclBfloat16, ncclFloat32};

// Arguments that are not those of a collective come to a simulated kernel by the pointer to what is sent.
template <typename Arguments, void (*body)(const Arguments&)>
void by_pointer(const KernelArguments& a) {
  Arguments mine = *static_cast<const Arguments*>(a.send);
  if constexpr (std::is_same_v<Arguments, NormArguments>) {
    const KernelArguments call = mine.all;
    mine.all = a;
    mine.all.send = call.send;
    mine.all.recv = call.recv;
    mine.all.count = call.count;
    mine.all.op = op_sum;
  }
  body(mine);
}

// Adding
// ---------------------------------------------------------------------------------------------------

template <typename T>
void add_for(const AddArguments& a) {
  if (a.ranks <= 2) return add<T, 2>(a);
  if (a.ranks <= 4) return add<T, 4>(a);
  add<T, 8>(a);
}

template <typename T>
void check_add(ncclDataType_t type, std::uint32_t seed) {
  std::mt19937 random(seed);
  const int ranks = 2 + int(random() % 7);
  const std::size_t element = cpu::element_size(type);
  cpu::Collective one;
  one.kind = CollectiveKind::all_reduce;
  one.type = type;
  one.reduction = static_cast<Reduction>(random() % 5);
  one.count = 1 + random() % 700;
  const Inputs inputs = cpu::test::random_inputs(one, ranks, seed);
  const std::size_t bytes = one.count * element;
  HostArena arena;
  const int rank = int(random() % std::uint32_t(ranks));
  // The user's memory lies anywhere, scratch at packs.
  Buffer own(arena, bytes, random() % 2 ? element * (random() % (16 / element)) : 0);
  Buffer result(arena, bytes, random() % 2 ? element * (random() % (16 / element)) : 0);
  const std::size_t whole = (bytes + 15) / 16 * 16;
  Buffer offered(arena, whole, 0);
  AddArguments a;
  a.own = own.data();
  a.result = random() % 3 == 0 ? own.data() : result.data();
  a.offered = random() % 2 ? offered.data() : nullptr;
  a.bytes = bytes;
  a.rank = rank;
  a.ranks = ranks;
  a.op = static_cast<ReduceOp>(one.reduction);
  std::memcpy(own.data(), inputs.send[std::size_t(rank)].data(), bytes);
  for (int source = 0; source < ranks; ++source) {
    if (source == rank) continue;
    Buffer pushed(arena, whole, 0);
    std::memcpy(pushed.data(), inputs.send[std::size_t(source)].data(), bytes);
    a.pushed[source] = pushed.data();
  }
  Machine machine(Layout::with(2, 3, 8, 64), seed);
  test::Launch launch{.kernel = by_pointer<AddArguments, add_for<T>>,
                      .channels = 1 + int(random() % 3),
                      .threads = 8 * (1 + int(random() % 3)),
                      .arguments = {}};
  launch.arguments.send = &a;
  machine.launch(0, launch);
  machine.run();
  const Bytes wanted = expected(one, inputs, rank);
  EXPECT_EQ(std::memcmp(a.result, wanted.data(), bytes), 0) << type << " seed " << seed;
  if (a.offered) {
    EXPECT_EQ(std::memcmp(a.offered, wanted.data(), bytes), 0) << type << " seed " << seed;
  }
  EXPECT_TRUE(own.is_intact_around() && result.is_intact_around() && offered.is_intact_around());
}

TEST(Adding, GivesTheReferencesBitsAndTouchesNothingElse) {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    check_add<float>(ncclFloat32, seed);
    check_add<Bfloat16>(ncclBfloat16, seed);
    check_add<Half>(ncclFloat16, seed);
    check_add<std::int8_t>(ncclInt8, seed);
    check_add<std::uint64_t>(ncclUint64, seed);
    check_add<double>(ncclFloat64, seed);
  }
}

// Residual and norm
// ---------------------------------------------------------------------------------------------------

template <typename T>
float wide(const unsigned char* at) {
  typename Element<T>::Bits bits;
  std::memcpy(&bits, at, sizeof bits);
  return Element<T>::widen(bits);
}
template <typename T>
void put(unsigned char* at, float value) {
  const auto bits = Element<T>::narrow(value);
  std::memcpy(at, &bits, sizeof bits);
}

// One call: the inputs of all ranks, and what every rank must find.
template <typename T>
struct NormCase {
  static constexpr std::size_t element = sizeof(typename Element<T>::Bits);
  std::size_t rows, hidden;
  Inputs inputs;
  Bytes residual, weight;
  Bytes wanted_residual;
  std::vector<double> wanted;  // of the output, before it is rounded

  NormCase(ncclDataType_t type, int ranks, std::size_t rows, std::size_t hidden, std::uint32_t seed)
      : rows(rows), hidden(hidden), residual(rows * hidden * element), weight(hidden * element) {
    cpu::Collective sum;
    sum.kind = CollectiveKind::all_reduce;
    sum.type = type;
    sum.reduction = Reduction::sum;
    sum.count = rows * hidden;
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    inputs.send.assign(std::size_t(ranks), Bytes(rows * hidden * element));
    for (Bytes& input : inputs.send) fill(input, normal, random);
    fill(residual, normal, random);
    fill(weight, normal, random);
    const Bytes sums = expected(sum, inputs, 0);
    wanted_residual = sums;
    for (std::size_t row = 0; row < rows; ++row) {
      double squares = 0;
      for (std::size_t i = row * hidden; i < (row + 1) * hidden; ++i) {
        const float x = wide<T>(&sums[i * element]) + wide<T>(&residual[i * element]);
        put<T>(&wanted_residual[i * element], x);
        squares += std::pow(double(wide<T>(&wanted_residual[i * element])), 2);
      }
      const double root = std::sqrt(squares / double(hidden) + 1e-5);
      for (std::size_t i = 0; i < hidden; ++i) {
        wanted.push_back(wide<T>(&wanted_residual[(row * hidden + i) * element]) / root *
                         wide<T>(&weight[i * element]));
      }
    }
  }
  static void fill(Bytes& bytes, std::normal_distribution<float>& normal, std::mt19937& random) {
    for (std::size_t at = 0; at < bytes.size(); at += element) put<T>(&bytes[at], normal(random));
  }
};

template <typename T>
void one_shot(const NormArguments& n) {
  if (n.all.ranks <= 2) return norm_one_shot<T, 2>(n);
  if (n.all.ranks <= 4) return norm_one_shot<T, 4>(n);
  norm_one_shot<T, 8>(n);
}
template <typename T>
void two_shot(const NormArguments& n) {
  if (n.all.ranks <= 2) return norm_two_shot<T, 2>(n);
  if (n.all.ranks <= 4) return norm_two_shot<T, 4>(n);
  norm_two_shot<T, 8>(n);
}

// A rank's buffers of one call.
template <typename T>
struct NormOfRank {
  Buffer output, residual_out, residual, weight;
  NormArguments n;

  NormOfRank(const NormCase<T>& one, int rank, bool in_place, Arena& arena)
      : output(arena, one.residual.size(), 0),
        residual_out(arena, one.residual.size(), 0),
        residual(arena, one.residual.size(), 0),
        weight(arena, one.weight.size(), 0) {
    const Bytes& input = one.inputs.send[std::size_t(rank)];
    unsigned char* from = in_place ? output.data() : arena.take(input.size() + 16);
    from += (16 - reinterpret_cast<std::uintptr_t>(from) % 16) % 16;
    std::memcpy(from, input.data(), input.size());
    std::memcpy(residual.data(), one.residual.data(), one.residual.size());
    std::memcpy(weight.data(), one.weight.data(), one.weight.size());
    NormCall call;
    call.type = type();
    call.input = from;
    call.residual = residual.data();
    call.residual_out = in_place ? residual.data() : residual_out.data();
    call.weight = weight.data();
    call.output = output.data();
    call.rows = one.rows;
    call.hidden = one.hidden;
    call.epsilon = 1e-5f;
    EXPECT_EQ(why_no_norm(call), "");
    n = norm_arguments(call);
  }
  static ncclDataType_t type() {
    if constexpr (std::is_same_v<T, Half>) return ncclFloat16;
    if constexpr (std::is_same_v<T, Bfloat16>) return ncclBfloat16;
    return ncclFloat32;
  }
};

// Adds to `shared` the calls in which channels shared rows.
template <typename T>
void check_norms(std::uint32_t seed, int& shared) {
  std::mt19937 random(seed);
  const int ranks = 2 + int(seed % 4);
  constexpr int most_channels = 4;
  const Layout layout = Layout::with(ranks, most_channels, 64, 64);
  Machine machine(layout, seed);
  HostArena arena;
  std::deque<NormCase<T>> cases;
  std::deque<std::deque<NormOfRank<T>>> made;
  for (int call = 0; call < 6; ++call) {
    const std::size_t of_a_pack = 16 / NormCase<T>::element;
    const NormCase<T>& one = cases.emplace_back(NormOfRank<T>::type(), ranks, 1 + random() % 4,
                                                of_a_pack * (std::size_t(ranks) + random() % 20), seed + 7 * call);
    auto& of_call = made.emplace_back();
    const bool one_hop = random() % 2;
    const bool in_place = random() % 2;
    // One or two rows may be shared by two or four channels, if each of them has a pack for every rank.
    const std::size_t packs = one.hidden / of_a_pack;
    int members = int(1u << random() % 3);
    while (members > 1 &&
           (int(one.rows) * members > most_channels || packs / std::size_t(members) < std::size_t(ranks)))
      members /= 2;
    const int channels = members > 1 ? int(one.rows) * members : std::min<int>(int(one.rows), most_channels);
    shared += members > 1;
    const int threads = 8 * (1 + int(random() % 2));
    for (int rank = 0; rank < ranks; ++rank) {
      auto& mine = of_call.emplace_back(one, rank, in_place, arena);
      mine.n.members = std::uint32_t(members);
      test::Launch launch{
          .kernel = one_hop ? by_pointer<NormArguments, one_shot<T>> : by_pointer<NormArguments, two_shot<T>>,
          .channels = channels,
          .threads = threads,
          .arguments = {}};
      launch.arguments.send = &mine.n;
      machine.launch(rank, launch);
    }
  }
  machine.run();
  for (std::size_t call = 0; call < cases.size(); ++call) {
    const NormCase<T>& one = cases[call];
    for (NormOfRank<T>& mine : made[call]) {
      ASSERT_EQ(std::memcmp(mine.n.residual_out, one.wanted_residual.data(), one.wanted_residual.size()), 0)
          << "seed " << seed << " call " << call;
      ASSERT_EQ(std::memcmp(mine.output.data(), made[call].front().output.data(), one.residual.size()), 0)
          << "ranks differ, seed " << seed;
      ASSERT_TRUE(mine.output.is_intact_around() && mine.residual_out.is_intact_around());
      // Rounded once: half a unit in the last place, and a little for the sum of squares.
      const double unit = sizeof(typename Element<T>::Bits) == 4 ? 0x1p-23 : std::is_same_v<T, Half> ? 0x1p-10 : 0x1p-7;
      for (std::size_t i = 0; i < one.wanted.size(); ++i) {
        const double got = wide<T>(mine.output.data() + i * NormCase<T>::element);
        const double slack = sizeof(typename Element<T>::Bits) == 4 ? 4.0 : 0.51;
        ASSERT_NEAR(got, one.wanted[i], slack * unit * std::abs(one.wanted[i]) + 1e-7) << i << " seed " << seed;
      }
    }
  }
}

TEST(Norms, GiveTheReferenceOnAllRanksInAnyOrderOfEvents) {
  int shared = 0;
  for (std::uint32_t seed = 0; seed < 3; ++seed) {
    check_norms<float>(seed, shared);
    check_norms<Half>(100 + seed, shared);
    check_norms<Bfloat16>(200 + seed, shared);
    if (::testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GE(shared, 9) << "calls in which channels shared a row";
}

// How they are started
// ---------------------------------------------------------------------------------------------------

TEST(NormShapes, KeepEveryRowInTheScratchAndInRegisters) {
  for (const int ranks : {2, 3, 4, 5, 8}) {
    const Layout layout = Layout::of(ranks);
    for (const std::size_t hidden : {8u, 64u, 2048u, 4096u, 5120u, 8192u, 16384u}) {
      for (const std::size_t element : {2u, 4u}) {
        for (std::size_t rows = 1; rows <= 70000; rows = rows * 3 / 2 + 1) {
          const std::size_t packs_of_a_row = hidden * element / 16;
          const NormShape shape = norm_shape(rows, hidden * element, layout, 132);
          const auto members = std::size_t(shape.members);
          ASSERT_LE((packs_of_a_row + members - 1) / members, std::size_t(most_packs_of_a_norm * shape.threads))
              << hidden;
          ASSERT_TRUE(shape.threads >= 128 && shape.threads <= 512 && shape.threads % 32 == 0);
          if (shape.way == NormWay::alone) continue;
          ASSERT_LE(std::size_t(shape.channels), rows * members);
          if (members > 1) ASSERT_EQ(std::size_t(shape.channels), rows * members) << "no member has two rows";
          const std::size_t packs =
              members > 1 ? (packs_of_a_row + members - 1) / members
                          : (rows + std::size_t(shape.channels) - 1) / std::size_t(shape.channels) * packs_of_a_row;
          const std::size_t sharers = shape.way == NormWay::two_shot ? std::size_t(ranks) : 1;
          ASSERT_LE((packs + sharers - 1) / sharers, layout.sentinel_packs);
        }
      }
    }
  }
  EXPECT_EQ(norm_shape(1, 8192, Layout::of(4), 132), (NormShape{NormWay::one_shot, 4, 128, 4}));
  EXPECT_EQ(norm_shape(1, 32768, Layout::of(4), 132), (NormShape{NormWay::one_shot, 8, 256, 8}));
  EXPECT_EQ(norm_shape(1, 32768, Layout::of(4), 3), (NormShape{NormWay::one_shot, 2, 512, 2})) << "few blocks";
  EXPECT_EQ(norm_shape(128, 8192, Layout::of(4), 132).way, NormWay::two_shot);
  EXPECT_EQ(norm_shape(20000, 8192, Layout::of(4), 132).way, NormWay::alone);
  EXPECT_EQ(norm_shape(100, 8192, Layout::of(4), 20).channels, 20) << "no more blocks than run at once";
}

}  // namespace
}  // namespace busbw::gpu::test

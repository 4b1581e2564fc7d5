// Random calls of the kernels: their arguments, their buffers, and what must come out.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <random>
#include <vector>

#include "library/gpu/choose/names.h"
#include "library/gpu/kernels/arguments.h"
#include "library/gpu/kernels/range.h"
#include "library/gpu/kernels/sentinel.h"
#include "library/tests/cpu/reference.h"

namespace busbw::gpu::test {

using cpu::CollectiveKind;
using cpu::Reduction;
using cpu::test::Bytes;
using cpu::test::Inputs;

// Memory that host and kernels both reach, until the arena goes.
class Arena {
 public:
  virtual ~Arena() = default;
  virtual unsigned char* take(std::size_t bytes) = 0;
};

class HostArena : public Arena {
 public:
  unsigned char* take(std::size_t bytes) override { return pieces_.emplace_back(bytes).data(); }

 private:
  std::deque<Bytes> pieces_;
};

inline CollectiveKind cpu_kind(Collective collective) {
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

inline bool travels_as_sentinel(ncclDataType_t type) {
  return type == ncclFloat16 || type == ncclBfloat16 || type == ncclFloat32;
}

// User memory at any alignment, with bytes around it that must stay as they are.
class Buffer {
 public:
  Buffer(Arena& arena, std::size_t bytes, std::size_t misalignment)
      : begin_(arena.take(bytes + around)), end_(begin_ + bytes + around), bytes_(bytes) {
    std::fill(begin_, end_, guard);
    const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(begin_) + 32;
    data_ = begin_ + 32 + (16 - address % 16) % 16 + misalignment;
  }
  unsigned char* data() { return data_; }
  bool is_intact_around() const {
    const auto is_guard = [](unsigned char byte) { return byte == guard; };
    return std::all_of(begin_, data_, is_guard) && std::all_of(data_ + bytes_, end_, is_guard);
  }

 private:
  static constexpr unsigned char guard = 0xa5;
  static constexpr std::size_t around = 128;
  unsigned char* begin_;
  unsigned char* end_;
  std::size_t bytes_;
  unsigned char* data_ = nullptr;
};

// One call as every rank makes it, with its buffers and what must come out.
struct Call {
  KernelKind kind{};
  cpu::Collective collective;
  bool in_place = false;
  int channels = 1;
  int threads = 4;
  Inputs inputs;
  std::vector<Buffer> send;
  std::vector<Buffer> recv;
};

inline std::size_t own_block(const Call& call, int rank, std::size_t piece) {
  return static_cast<std::size_t>(rank) * piece * (call.kind.collective == Collective::all_gather ? 1 : 0);
}

// In place as NCCL defines it: the smaller buffer is this rank's block of the larger one.
inline KernelArguments prepare(Call& call, int rank, int ranks, Arena& arena, std::mt19937& random) {
  const std::size_t element = cpu::element_size(call.collective.type);
  const std::size_t piece = call.collective.count * element;
  const Bytes& input = call.inputs.send[static_cast<std::size_t>(rank)];
  const std::size_t out_bytes = recv_elements(call.collective, ranks) * element;
  const std::size_t misalignment = random() % 3 == 0 ? random() % (16 / element) * element : 0;
  Buffer& recv = call.recv.emplace_back(arena, std::max(call.in_place ? input.size() : 0, out_bytes), misalignment);
  unsigned char* to = recv.data();
  unsigned char* from = nullptr;
  if (call.in_place) {
    from = to + own_block(call, rank, piece);
    if (call.kind.collective == Collective::reduce_scatter) to += static_cast<std::size_t>(rank) * piece;
    call.send.emplace_back(arena, 0, 0);
  } else {
    from =
        call.send.emplace_back(arena, input.size(), random() % 2 == 0 ? random() % (16 / element) * element : 0).data();
  }
  std::memcpy(from, input.data(), input.size());
  KernelArguments arguments;
  arguments.send = from;
  arguments.recv = to;
  arguments.count = reduces(call.kind.collective) ? call.collective.count : piece;
  arguments.root = call.collective.root;
  arguments.op = static_cast<ReduceOp>(call.collective.reduction);
  return arguments;
}

inline void check(Call& call, int ranks) {
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
inline bool fits(const Call& call, const Layout& layout) {
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

// Words of data that the sentinel protocol takes for empty slots, on some ranks: a few, or nothing else.
inline void plant_sentinels(Inputs& inputs, std::mt19937& random) {
  for (Bytes& bytes : inputs.send) {
    if (random() % 3 == 0) continue;
    const bool everywhere = random() % 4 == 0;
    for (std::size_t at = random() % 4; at + 4 <= bytes.size(); at += 4) {
      const std::uint32_t word = sentinel_neighbour - random() % 2;
      if (everywhere || random() % 16 == 0) std::memcpy(&bytes[at], &word, 4);
    }
  }
}

struct Sizes {
  std::uint32_t most_elements;
  int least_threads;
  int threads_of_a_stage;  // at least
};

inline Call random_call(const KernelKind& kind, const Layout& layout, const Sizes& sizes, std::mt19937& random) {
  Call call;
  do {
    call.kind = kind;
    call.collective.kind = cpu_kind(kind.collective);
    do call.collective.type = static_cast<ncclDataType_t>(random() % ncclNumTypes);
    while (kind.protocol == Protocol::sentinel && reduces(kind.collective) &&
           !travels_as_sentinel(call.collective.type));
    call.collective.reduction = static_cast<Reduction>(random() % 5);
    call.collective.root = static_cast<int>(random() % static_cast<std::uint32_t>(layout.ranks));
    call.collective.count = 1 + random() % (random() % 3 == 0 ? sizes.most_elements : sizes.most_elements / 10);
    call.in_place = kind.collective != Collective::all_to_all && random() % 2 == 0;
    call.channels = 1 + static_cast<int>(random() % static_cast<std::uint32_t>(layout.channels));
    call.threads = std::max({layout.ranks, sizes.least_threads << random() % 4,
                             stages_of(kind) * sizes.threads_of_a_stage * (1 + static_cast<int>(random() % 3) / 2)});
    call.threads = std::min(call.threads, most_threads(kind, layout.ranks));
  } while (!fits(call, layout));
  call.inputs = cpu::test::random_inputs(call.collective, layout.ranks, static_cast<std::uint32_t>(random()));
  if (!reduces(kind.collective) && random() % 2 == 0) plant_sentinels(call.inputs, random);
  return call;
}

}  // namespace busbw::gpu::test

// Simple: data goes to slots in the receiver's scratch, and a counter behind a fence says how many steps are there.
// Every connection (channel, port, sender, receiver) is a row of slots used in turn:
//
//     sender                                     receiver's scratch
//       wait until step - read < slots             +--------+--------+--------+--------+
//       write the data of the step  -------------> | slot 0 | slot 1 |  ...   | slot 7 |
//       barrier, fence, filled = step + 1 -------> +--------+--------+--------+--------+
//                                                  wait until filled > step, use the data,
//       sender's scratch: read = step + 1 <------  barrier, say so
//
// Full use of a link's bytes at 16 bytes a store; a hop costs the fence on top of the flight. Steps are numbered since
// the communicator was made and wrap at 2^32, which their differences do not notice.
#pragma once

#include "library/gpu/kernels/arguments.h"
#include "library/gpu/kernels/pack.h"
#include "library/gpu/kernels/range.h"
#include "library/gpu/kernels/reduction.h"
#include "library/gpu/kernels/stage.h"

namespace busbw::gpu {

// 4 KiB: a step that is much shorter takes less time than the fence behind it.
inline constexpr std::uint64_t least_step_packs = 256;

// Packs that a worker loads before it stores the first of them.
template <int Packs>
struct Batch {
  static constexpr int size = Packs;
  Pack<16> pack[Packs];
};

class SimpleChannel {
 public:
  BUSBW_DEVICE explicit SimpleChannel(const KernelArguments& arguments)
      : a_(arguments),
        channel_(static_cast<int>(channel_index())),
        state_(arguments.state[channel_]),
        patience_(arguments.abort) {
    wait_for_previous();
  }

  BUSBW_DEVICE std::uint64_t slot_packs() const { return a_.layout.slot_bytes / 16; }

  // Steps that move `packs`, which `sharers` ranks share in each step.
  BUSBW_DEVICE std::uint32_t steps(std::uint64_t packs, std::uint64_t sharers) const {
    const std::uint64_t least = least_step_packs < slot_packs() ? least_step_packs : slot_packs();
    return steps_of(packs, sharers * least, sharers * slot_packs());
  }

  // `step` counts the steps of this call; the numbers before are in the state.
  BUSBW_DEVICE void wait_free(int port, int peer, std::uint32_t step) {
    const std::uint32_t number = state_.sent[port][peer] + step;
    const unsigned char* counter = a_.scratch[a_.rank] + a_.layout.read(channel_, port, peer);
    while (number - load_flag_acquire(counter) >= simple_slots && patience_.again()) {
    }
  }

  BUSBW_DEVICE void wait_filled(int port, int peer, std::uint32_t step) {
    const std::uint32_t number = state_.received[port][peer] + step;
    const unsigned char* counter = a_.scratch[a_.rank] + a_.layout.filled(channel_, port, peer);
    while (static_cast<std::int32_t>(load_flag_acquire(counter) - number) <= 0 && patience_.again()) {
    }
  }

  // The slot in the peer's scratch.
  BUSBW_DEVICE unsigned char* target(int port, int peer, std::uint32_t step) const {
    return a_.scratch[peer] + a_.layout.slot(channel_, port, a_.rank, state_.sent[port][peer] + step);
  }

  BUSBW_DEVICE const unsigned char* arrived(int port, int peer, std::uint32_t step) const {
    return a_.scratch[a_.rank] + a_.layout.slot(channel_, port, peer, state_.received[port][peer] + step);
  }

  // After a barrier behind the stores to `target`.
  BUSBW_DEVICE void announce(int port, int peer, std::uint32_t step) const {
    release_fence();
    store_flag(a_.scratch[peer] + a_.layout.filled(channel_, port, a_.rank), state_.sent[port][peer] + step + 1);
  }

  // After a barrier behind the use of `arrived`. No fence: nothing but loads has to come before.
  BUSBW_DEVICE void give_back(int port, int peer, std::uint32_t step) const {
    store_flag(a_.scratch[peer] + a_.layout.read(channel_, port, a_.rank), state_.received[port][peer] + step + 1);
  }

  // By one thread for each peer and port, after a barrier of the block: what this call has moved.
  BUSBW_DEVICE void count(int port, int peer, std::uint32_t sent, std::uint32_t received) const {
    state_.sent[port][peer] += sent;
    state_.received[port][peer] += received;
  }

 private:
  const KernelArguments& a_;
  int channel_;
  ChannelState& state_;
  Patience patience_;
};

// Slots of the peers in one step: that of peer_after(i) at i, null for whom nothing goes.
template <int Most>
struct Slots {
  unsigned char* of[Most];
};

template <int Most>
BUSBW_DEVICE Slots<Most> targets(const KernelArguments& a, const SimpleChannel& channel, int port, std::uint32_t step,
                                 int without = -1) {
  Slots<Most> slots{};
  BUSBW_UNROLL
  for (int i = 1; i < Most; ++i)
    if (i < a.ranks && peer_after(a, i) != without) slots.of[i] = channel.target(port, peer_after(a, i), step);
  return slots;
}

template <int Most>
BUSBW_DEVICE void store_to_all(const Slots<Most>& slots, std::uint64_t i, const Pack<16>& pack) {
  BUSBW_UNROLL
  for (int peer = 1; peer < Most; ++peer)
    if (slots.of[peer] != nullptr) store_data(slots.of[peer] + 16 * i, words_of(pack));
}

// Calls `body(rows..., batch)` with the rows as whole packs where they are that up to `packs`, four in a batch, and as
// they are elsewhere, one by one.
template <typename Body>
BUSBW_DEVICE void with_row(const PackRow<16>& row, std::uint64_t packs, const Body& body) {
  if (row.is_whole(packs)) {
    body(row.whole(), Batch<4>{});
  } else {
    body(row, Batch<1>{});
  }
}
template <typename Body>
BUSBW_DEVICE void with_rows(const PackRow<16>& a, const PackRow<16>& b, std::uint64_t packs, const Body& body) {
  if (a.is_whole(packs) && b.is_whole(packs)) {
    body(a.whole(), b.whole(), Batch<4>{});
  } else {
    body(a, b, Batch<1>{});
  }
}

// Packs `range` of a row into a slot.
BUSBW_DEVICE void copy_to_slot(const Stage& stage, const PackRow<16>& from, const Range& range, unsigned char* slot) {
  with_row(from, range.end, [&](const auto& row, auto packs) {
    stage.for_each<decltype(packs)::size>(
        range.size(), [&](std::uint64_t i, int k) { packs.pack[k] = row.load(range.begin + i); },
        [&](std::uint64_t i, int k) { store_data(slot + 16 * i, words_of(packs.pack[k])); });
  });
}

BUSBW_DEVICE void copy_from_slot(const Stage& stage, const unsigned char* slot, const PackRow<16>& to,
                                 const Range& range) {
  with_row(to, range.end, [&](const auto& row, auto packs) {
    stage.for_each<decltype(packs)::size>(
        range.size(), [&](std::uint64_t i, int k) { packs.pack[k] = pack_of(load_relaxed(slot + 16 * i)); },
        [&](std::uint64_t i, int k) { row.store(range.begin + i, packs.pack[k]); });
  });
}

BUSBW_DEVICE void copy_row(const Stage& stage, const PackRow<16>& from, const PackRow<16>& to, const Range& range) {
  with_rows(from, to, range.end, [&](const auto& source, const auto& target, auto packs) {
    stage.for_each<decltype(packs)::size>(
        range.size(), [&](std::uint64_t i, int k) { packs.pack[k] = source.load(range.begin + i); },
        [&](std::uint64_t i, int k) { target.store(range.begin + i, packs.pack[k]); });
  });
}

// Reduces packs `range` of `own` with what lies in the slots of `step`, in the order of ranks; `store(i, pack)` takes
// result i of the range.
template <typename T, int Most, typename Row, typename Store>
BUSBW_DEVICE void reduce_slots(const KernelArguments& a, const Stage& stage, const SimpleChannel& channel,
                               std::uint32_t step, const Row& own, const Range& range, const Store& store) {
  // Of ranks that there are not too, which nobody reads: ptxas 13.0 loses what is computed under a condition and then
  // spilled, where the condition's register takes the carry of the same addition.
  const unsigned char* slots[Most];
  BUSBW_UNROLL
  for (int source = 0; source < Most; ++source) slots[source] = channel.arrived(0, source, step);
  // With one pack at a time, the reducing stage would wait for memory; more do not fit into registers.
  constexpr int batch = Most <= 2 ? 3 : Most <= 4 ? 2 : 1;
  PackOfEach<16, Most> rows[batch];
  stage.for_each<batch>(
      range.size(),
      [&](std::uint64_t i, int k) {
        BUSBW_UNROLL
        for (int source = 0; source < Most; ++source)
          if (source < a.ranks)
            rows[k].from[source] =
                source == a.rank ? own.load(range.begin + i) : pack_of(load_relaxed(slots[source] + 16 * i));
      },
      [&](std::uint64_t i, int k) { store(i, PackReduction<T, 16>::run(rows[k], a.ranks, a.op)); });
}

}  // namespace busbw::gpu

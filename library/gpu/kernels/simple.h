// Simple: data goes to slots in the receiver's scratch, and a counter behind a fence says how many steps are there.
// Every connection (channel, port, sender, receiver) is a row of slots used in turn:
//
//     sender                                     receiver's scratch
//       wait until step - read < slots             +--------+--------+--------+--------+
//       write the data of the step  -------------> | slot 0 | slot 1 | slot 2 | slot 3 |
//       barrier, fence, filled = step + 1 -------> +--------+--------+--------+--------+
//                                                  wait until filled > step, use the data,
//       sender's scratch: read = step + 1 <------  barrier, say so
//
// Full use of a link's bytes at 16 bytes a store; a hop costs the fence on top of the flight. Steps are numbered since
// the communicator was made and wrap at 2^32, which their differences do not notice.
//
// Threads 0 to ranks-1 each look after the counters of one peer; all threads move data.
#pragma once

#include "library/gpu/kernels/arguments.h"
#include "library/gpu/kernels/pack.h"
#include "library/gpu/kernels/range.h"
#include "library/gpu/kernels/reduction.h"

namespace busbw::gpu {

class SimpleChannel {
 public:
  BUSBW_DEVICE explicit SimpleChannel(const KernelArguments& arguments)
      : a_(arguments),
        channel_(static_cast<int>(channel_index())),
        state_(arguments.state[channel_]),
        patience_(arguments.abort) {}

  BUSBW_DEVICE Range part_of(std::uint64_t packs) const { return Range{0, packs}.part(channel_, channel_count()); }
  BUSBW_DEVICE std::uint64_t slot_packs() const { return a_.layout.slot_bytes / 16; }

  // The peer that this thread's counters are about, or -1.
  BUSBW_DEVICE int attended() const {
    const int peer = static_cast<int>(thread_index());
    return peer < a_.ranks && peer != a_.rank ? peer : -1;
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

  // By the thread that attends to `peer`, after a barrier: what this call has moved.
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

// One step of an exchange in which every rank sends to every other: `load(peer, i)` is pack i for the peer.
template <typename Load>
BUSBW_DEVICE void push_to_all(const KernelArguments& a, SimpleChannel& channel, int port, std::uint32_t step,
                              const Load& load) {
  const int attended = channel.attended();
  if (attended >= 0) channel.wait_free(port, attended, step);
  block_sync();
  for (int i = 1; i < a.ranks; ++i) load(peer_after(a, i), channel.target(port, peer_after(a, i), step));
  block_sync();
  if (attended >= 0) channel.announce(port, attended, step);
}

// Waits until the step has come from every other rank.
BUSBW_DEVICE void wait_for_all(SimpleChannel& channel, int port, std::uint32_t step) {
  const int attended = channel.attended();
  if (attended >= 0) channel.wait_filled(port, attended, step);
  block_sync();
}

BUSBW_DEVICE void give_back_to_all(SimpleChannel& channel, int port, std::uint32_t step) {
  block_sync();
  const int attended = channel.attended();
  if (attended >= 0) channel.give_back(port, attended, step);
}

// Packs `range` of a row into a slot.
BUSBW_DEVICE void copy_to_slot(const PackRow<16>& row, const Range& range, unsigned char* slot) {
  for (std::uint64_t i = thread_index(); i < range.size(); i += thread_count())
    store_data(slot + 16 * i, words_of(row.load(range.begin + i)));
}

BUSBW_DEVICE void copy_from_slot(const unsigned char* slot, const PackRow<16>& row, const Range& range) {
  for (std::uint64_t i = thread_index(); i < range.size(); i += thread_count())
    row.store(range.begin + i, pack_of(load_relaxed(slot + 16 * i)));
}

BUSBW_DEVICE void copy_row(const PackRow<16>& from, const PackRow<16>& to, const Range& range) {
  for (std::uint64_t i = range.begin + thread_index(); i < range.end; i += thread_count()) to.store(i, from.load(i));
}

// Reduces packs `range` of `own` with what lies in the slots of `step`, in the order of ranks; `store(i, pack)` takes
// result i of the range.
template <typename T, typename Store>
BUSBW_DEVICE void reduce_slots(const KernelArguments& a, const SimpleChannel& channel, std::uint32_t step,
                               const PackRow<16>& own, const Range& range, const Store& store) {
  const unsigned char* slots[max_ranks];
  BUSBW_UNROLL
  for (int source = 0; source < max_ranks; ++source)
    if (source < a.ranks) slots[source] = channel.arrived(0, source, step);
  for (std::uint64_t i = thread_index(); i < range.size(); i += thread_count()) {
    PackOfEach<16> row;
    BUSBW_UNROLL
    for (int source = 0; source < max_ranks; ++source)
      if (source < a.ranks)
        row.from[source] = source == a.rank ? own.load(range.begin + i) : pack_of(load_relaxed(slots[source] + 16 * i));
    store(i, PackReduction<T, 16>::run(row, a.ranks, a.op));
  }
}

// All-reduce, two shots in a pipeline of steps; in each, rank r owns share r.
//
//     step t      push the shares of step t to their owners             port 0
//                 reduce the own share of step t-1, push it to all      port 1
//                 copy the other shares of step t-2 into the output
template <typename T>
BUSBW_DEVICE void all_reduce_two_shot_simple(const KernelArguments& a) {
  const std::uint64_t bytes = a.count * sizeof(T);
  const PackRow<16> in(a.send, bytes);
  const PackRow<16> out(a.recv, bytes);
  SimpleChannel channel(a);
  const Range part = channel.part_of(packs_of(bytes, 16));
  const std::uint32_t steps = steps_of(part.size(), a.ranks * channel.slot_packs());
  const auto share = [&](std::uint32_t step, int owner) { return part.part(step, steps).part(owner, a.ranks); };
  for (std::uint32_t t = 0; t < steps + 2; ++t) {
    if (t < steps) {
      push_to_all(a, channel, 0, t, [&](int peer, unsigned char* slot) { copy_to_slot(in, share(t, peer), slot); });
    }
    if (t >= 1 && t - 1 < steps) {
      const std::uint32_t step = t - 1;
      const Range mine = share(step, a.rank);
      const int attended = channel.attended();
      if (attended >= 0) channel.wait_free(1, attended, step);
      wait_for_all(channel, 0, step);
      reduce_slots<T>(a, channel, step, in, mine, [&](std::uint64_t i, const Pack<16>& result) {
        for (int k = 1; k < a.ranks; ++k)
          store_data(channel.target(1, peer_after(a, k), step) + 16 * i, words_of(result));
        out.store(mine.begin + i, result);
      });
      give_back_to_all(channel, 0, step);
      if (attended >= 0) channel.announce(1, attended, step);
    }
    if (t >= 2) {
      const std::uint32_t step = t - 2;
      wait_for_all(channel, 1, step);
      for (int i = 1; i < a.ranks; ++i) {
        const int peer = peer_after(a, i);
        copy_from_slot(channel.arrived(1, peer, step), out, share(step, peer));
      }
      give_back_to_all(channel, 1, step);
    }
  }
  block_sync();
  if (channel.attended() < 0) return;
  channel.count(0, channel.attended(), steps, steps);
  channel.count(1, channel.attended(), steps, steps);
}

// The exchanges of one hop: push step t, use step t-1.
template <typename Push, typename Use>
BUSBW_DEVICE void exchange(const KernelArguments& a, SimpleChannel& channel, std::uint32_t steps, const Push& push,
                           const Use& use) {
  for (std::uint32_t t = 0; t < steps + 1; ++t) {
    if (t < steps) push_to_all(a, channel, 0, t, [&](int peer, unsigned char* slot) { push(t, peer, slot); });
    if (t == 0) continue;
    wait_for_all(channel, 0, t - 1);
    use(t - 1);
    give_back_to_all(channel, 0, t - 1);
  }
  block_sync();
  if (channel.attended() >= 0) channel.count(0, channel.attended(), steps, steps);
}

// Reduce-scatter: block r of every vector goes to rank r, which reduces.
template <typename T>
BUSBW_DEVICE void reduce_scatter_simple(const KernelArguments& a) {
  const std::uint64_t bytes = a.count * sizeof(T);
  const PackRow<16> mine(at(a.send, a.rank * bytes), bytes);
  const PackRow<16> out(a.recv, bytes);
  SimpleChannel channel(a);
  const Range part = channel.part_of(packs_of(bytes, 16));
  const std::uint32_t steps = steps_of(part.size(), channel.slot_packs());
  exchange(
      a, channel, steps,
      [&](std::uint32_t step, int peer, unsigned char* slot) {
        copy_to_slot(PackRow<16>(at(a.send, peer * bytes), bytes), part.part(step, steps), slot);
      },
      [&](std::uint32_t step) {
        const Range range = part.part(step, steps);
        reduce_slots<T>(a, channel, step, mine, range,
                        [&](std::uint64_t i, const Pack<16>& result) { out.store(range.begin + i, result); });
      });
}

// What came from all the others in one step, into their blocks of the output.
BUSBW_DEVICE void copy_blocks(const KernelArguments& a, const SimpleChannel& channel, std::uint32_t step,
                              const Range& range) {
  for (int i = 1; i < a.ranks; ++i) {
    const int peer = peer_after(a, i);
    copy_from_slot(channel.arrived(0, peer, step), PackRow<16>(at(a.recv, peer * a.count), a.count), range);
  }
}

// All-gather: every rank's block to every rank.
BUSBW_DEVICE void all_gather_simple(const KernelArguments& a) {
  const PackRow<16> in(a.send, a.count);
  const PackRow<16> own(at(a.recv, a.rank * a.count), a.count);
  const bool in_place = a.send == at(a.recv, a.rank * a.count);
  SimpleChannel channel(a);
  const Range part = channel.part_of(packs_of(a.count, 16));
  const std::uint32_t steps = steps_of(part.size(), channel.slot_packs());
  exchange(
      a, channel, steps,
      [&](std::uint32_t step, int, unsigned char* slot) { copy_to_slot(in, part.part(step, steps), slot); },
      [&](std::uint32_t step) {
        if (!in_place) copy_row(in, own, part.part(step, steps));
        copy_blocks(a, channel, step, part.part(step, steps));
      });
}

// All-to-all: block r of rank p's buffer becomes block p of rank r's.
BUSBW_DEVICE void all_to_all_simple(const KernelArguments& a) {
  const std::uint64_t own = a.rank * a.count;
  SimpleChannel channel(a);
  const Range part = channel.part_of(packs_of(a.count, 16));
  const std::uint32_t steps = steps_of(part.size(), channel.slot_packs());
  exchange(
      a, channel, steps,
      [&](std::uint32_t step, int peer, unsigned char* slot) {
        copy_to_slot(PackRow<16>(at(a.send, peer * a.count), a.count), part.part(step, steps), slot);
      },
      [&](std::uint32_t step) {
        const Range range = part.part(step, steps);
        copy_row(PackRow<16>(at(a.send, own), a.count), PackRow<16>(at(a.recv, own), a.count), range);
        copy_blocks(a, channel, step, range);
      });
}

// Broadcast: the root scatters, and each of the others forwards its share to the rest, so that no more than the vector
// itself leaves the root or enters a rank.
//
//     port 0   root: share r --> rank r                       step t
//     port 1   rank r: share r --> every rank but the root    step t, as it arrives; collected in step t+1
class BroadcastShares {
 public:
  BUSBW_DEVICE BroadcastShares(const KernelArguments& a, const Range& part, std::uint64_t slot_packs)
      : a_(a), part_(part), steps_(steps_of(part.size(), (a.ranks - 1) * slot_packs)) {}

  BUSBW_DEVICE std::uint32_t steps() const { return steps_; }
  BUSBW_DEVICE Range of(std::uint32_t step, int rank) const {
    return part_.part(step, steps_).part(rank < a_.root ? rank : rank - 1, a_.ranks - 1);
  }

 private:
  const KernelArguments& a_;
  Range part_;
  std::uint32_t steps_;
};

BUSBW_DEVICE void broadcast_from_root(const KernelArguments& a, SimpleChannel& channel, const BroadcastShares& shares,
                                      const PackRow<16>& in, const PackRow<16>& out) {
  for (std::uint32_t t = 0; t < shares.steps(); ++t) {
    push_to_all(a, channel, 0, t, [&](int peer, unsigned char* slot) {
      copy_to_slot(in, shares.of(t, peer), slot);
      if (a.send != a.recv) copy_row(in, out, shares.of(t, peer));
    });
  }
  block_sync();
  if (channel.attended() >= 0) channel.count(0, channel.attended(), shares.steps(), 0);
}

// The share of step t: from the root into the output and on to the others.
BUSBW_DEVICE void forward_share(const KernelArguments& a, SimpleChannel& channel, const BroadcastShares& shares,
                                std::uint32_t t, const PackRow<16>& out) {
  const int attended = channel.attended();
  const bool other = attended >= 0 && attended != a.root;
  if (attended == a.root) channel.wait_filled(0, a.root, t);
  if (other) channel.wait_free(1, attended, t);
  block_sync();
  const Range mine = shares.of(t, a.rank);
  const unsigned char* slot = channel.arrived(0, a.root, t);
  for (std::uint64_t i = thread_index(); i < mine.size(); i += thread_count()) {
    const Words words = load_relaxed(slot + 16 * i);
    for (int k = 1; k < a.ranks; ++k) {
      const int peer = peer_after(a, k);
      if (peer != a.root) store_data(channel.target(1, peer, t) + 16 * i, words);
    }
    out.store(mine.begin + i, pack_of(words));
  }
  block_sync();
  if (attended == a.root) channel.give_back(0, a.root, t);
  if (other) channel.announce(1, attended, t);
}

BUSBW_DEVICE void collect_shares(const KernelArguments& a, SimpleChannel& channel, const BroadcastShares& shares,
                                 std::uint32_t step, const PackRow<16>& out) {
  const int attended = channel.attended();
  const bool other = attended >= 0 && attended != a.root;
  if (other) channel.wait_filled(1, attended, step);
  block_sync();
  for (int k = 1; k < a.ranks; ++k) {
    const int peer = peer_after(a, k);
    if (peer != a.root) copy_from_slot(channel.arrived(1, peer, step), out, shares.of(step, peer));
  }
  block_sync();
  if (other) channel.give_back(1, attended, step);
}

BUSBW_DEVICE void broadcast_simple(const KernelArguments& a) {
  const PackRow<16> in(a.send, a.count);
  const PackRow<16> out(a.recv, a.count);
  SimpleChannel channel(a);
  const BroadcastShares shares(a, channel.part_of(packs_of(a.count, 16)), channel.slot_packs());
  if (a.rank == a.root) return broadcast_from_root(a, channel, shares, in, out);
  for (std::uint32_t t = 0; t < shares.steps() + 1; ++t) {
    if (t < shares.steps()) forward_share(a, channel, shares, t, out);
    if (t >= 1) collect_shares(a, channel, shares, t - 1, out);
  }
  block_sync();
  const int attended = channel.attended();
  if (attended == a.root) channel.count(0, a.root, 0, shares.steps());
  if (attended >= 0 && attended != a.root) channel.count(1, attended, shares.steps(), shares.steps());
}

}  // namespace busbw::gpu

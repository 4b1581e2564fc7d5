// The sentinel protocol: packs of 16 bytes, all of them data. A slot that nobody has written holds the sentinel in each
// of its four words, and a receiver looks until none of them is the sentinel any more: no flag, no fence, and half the
// bytes of LL. The sentinel is a NaN of every type that may travel this way (float, and two halves or bfloat16 at
// once); a word of data that equals it is sent as its neighbour, another NaN.
//
// Slots must be made empty again before their next use, hence three sets, taken in turn:
//
//     call k      set 0 filled and read     set 2 (of call k-1) cleared by its owner
//     call k+1    set 1 filled and read     set 0 cleared                             peers may fill set 1 already
//     call k+2    set 2 filled and read     set 1 cleared                             while this rank is in call k
//
// A kernel ends on a rank only after every other rank has started the call. So when a peer writes to set 2 in call k+2,
// this rank has at least started call k+1, and its call k, which cleared that set, is over.
#pragma once

#include "library/gpu/kernels/arguments.h"
#include "library/gpu/kernels/pack.h"
#include "library/gpu/kernels/range.h"
#include "library/gpu/kernels/reduction.h"

namespace busbw::gpu {

inline constexpr std::uint32_t sentinel = 0xfffafffa;
inline constexpr std::uint32_t sentinel_neighbour = 0xfffafffb;

template <int Most>
class SentinelChannel {
 public:
  BUSBW_DEVICE explicit SentinelChannel(const KernelArguments& arguments)
      : a_(arguments),
        channel_(static_cast<int>(channel_index())),
        last_set_(last_set(arguments.state[channel_])),
        set_(last_set_ + 1 == sentinel_sets ? 0 : last_set_ + 1),
        dirty_{arguments.state[channel_].sentinel_dirty[0], arguments.state[channel_].sentinel_dirty[1]},
        patience_(arguments.abort) {}

  // What may be sent instead of a pack.
  BUSBW_DEVICE static Pack<16> sendable(Pack<16> pack) {
    BUSBW_UNROLL
    for (std::uint32_t& word : pack.word)
      if (word == sentinel) word = sentinel_neighbour;
    return pack;
  }

  BUSBW_DEVICE void send(int port, int peer, std::uint64_t slot, const Pack<16>& pack) const {
    unsigned char* line = a_.scratch[peer] + a_.layout.sentinel(channel_, port, set_, a_.rank);
    store_relaxed(line + 16 * slot, words_of(pack));
  }

  BUSBW_DEVICE void send_to_all(int port, std::uint64_t slot, const Pack<16>& pack) const {
    for (int i = 1; i < a_.ranks; ++i) send(port, peer_after(a_, i), slot, pack);
  }

  // Packs of the peers' lines, that of peer_after(i) at i, in slots `slot`, one block of threads on, and so on; those
  // where `wanted(slot, i)`. All are looked at before any is waited for.
  template <int Batch, typename Wanted>
  BUSBW_DEVICE void receive(int port, std::uint64_t slot, const Wanted& wanted, Pack<16> (&packs)[Batch][Most]) {
    bool all;
    do {
      all = true;
      each<Batch>(slot, [&](std::uint64_t at, int k, int i) {
        if (wanted(at, i)) packs[k][i] = pack_of(load_relaxed(own_line(port, set_, peer_after(a_, i)) + 16 * at));
      });
      each<Batch>(slot, [&](std::uint64_t at, int k, int i) {
        if (wanted(at, i)) all = all && arrived(words_of(packs[k][i]));
      });
    } while (!all && patience_.again());
  }

  // The same for slots below `end`, that of rank r at r; the own packs are in `rows` already, at every rank.
  template <int Batch>
  BUSBW_DEVICE void receive_from_all(int port, std::uint64_t slot, std::uint64_t end,
                                     PackOfEach<16, Most> (&rows)[Batch]) {
    const auto peers = [&](const auto& body) {
      BUSBW_UNROLL
      for (int k = 0; k < Batch; ++k) BUSBW_UNROLL
      for (int source = 0; source < Most; ++source)
        if (source < a_.ranks && source != a_.rank && slot + k * thread_count() < end)
          body(slot + k * thread_count(), source, rows[k].from[source]);
    };
    bool all;
    do {
      all = true;
      peers([&](std::uint64_t at, int source, Pack<16>& pack) {
        pack = pack_of(load_relaxed(own_line(port, set_, source) + 16 * at));
      });
      peers([&](std::uint64_t, int, const Pack<16>& pack) { all = all && arrived(words_of(pack)); });
    } while (!all && patience_.again());
  }

  // Empties what the last call of this channel has filled on a port, from slot `first` on. Any time during a call.
  BUSBW_DEVICE void clear_last(int port, std::uint64_t first = 0) const {
    for (std::uint64_t slot = first + thread_index(); slot < dirty_[port]; slot += thread_count())
      clear_last_slot(port, slot);
  }

  // A slot of that.
  BUSBW_DEVICE void clear_last_slot(int port, std::uint64_t slot) const {
    if (slot >= dirty_[port]) return;
    for (int i = 1; i < a_.ranks; ++i)
      store_relaxed(own_line(port, last_set_, peer_after(a_, i)) + 16 * slot,
                    {{sentinel, sentinel, sentinel, sentinel}});
  }

  // `used`: the slots of each line that this call may have filled, port by port.
  BUSBW_DEVICE void end(std::uint64_t used_0, std::uint64_t used_1) {
    block_sync();
    if (thread_index() != 0) return;
    a_.state[channel_].sentinel_set = set_;
    a_.state[channel_].sentinel_dirty[0] = static_cast<std::uint32_t>(used_0);
    a_.state[channel_].sentinel_dirty[1] = static_cast<std::uint32_t>(used_1);
  }

 private:
  // The kernel before has left it there.
  BUSBW_DEVICE static std::uint32_t last_set(const ChannelState& state) {
    wait_for_previous();
    let_next_begin();
    return state.sentinel_set;
  }

  // Word by word: that 16 bytes arrive as one is promised nowhere.
  BUSBW_DEVICE static bool arrived(const Words& words) {
    return words.word[0] != sentinel && words.word[1] != sentinel && words.word[2] != sentinel &&
           words.word[3] != sentinel;
  }

  // Calls `body(at, k, i)` for slot number k of a batch and the i-th peer.
  template <int Batch, typename Body>
  BUSBW_DEVICE void each(std::uint64_t slot, const Body& body) const {
    BUSBW_UNROLL
    for (int k = 0; k < Batch; ++k) BUSBW_UNROLL
    for (int i = 1; i < Most; ++i)
      if (i < a_.ranks) body(slot + k * thread_count(), k, i);
  }

  BUSBW_DEVICE unsigned char* own_line(int port, std::uint32_t set, int source) const {
    return a_.scratch[a_.rank] + a_.layout.sentinel(channel_, port, set, source);
  }

  const KernelArguments& a_;
  int channel_;
  std::uint32_t last_set_;
  std::uint32_t set_;
  std::uint32_t dirty_[ports];
  Patience patience_;
};

// The packs of a channel's part that each rank owns: those of peer_after(i) at i, the own ones at 0.
template <int Most>
class Shares {
 public:
  BUSBW_DEVICE Shares(const KernelArguments& a, const Range& part) : begin_(part.begin) {
    BUSBW_UNROLL
    for (int i = 0; i < Most; ++i) {
      if (i >= a.ranks) continue;
      const Range share = part.part(peer_after(a, i), a.ranks);
      offset_[i] = static_cast<std::uint32_t>(share.begin - begin_);
      size_[i] = static_cast<std::uint32_t>(share.size());
    }
    most_ = static_cast<std::uint32_t>(packs_of(part.size(), a.ranks));
  }

  BUSBW_DEVICE std::uint64_t begin(int i) const { return begin_ + offset_[i]; }
  BUSBW_DEVICE std::uint32_t size(int i) const { return size_[i]; }
  // Of the largest share.
  BUSBW_DEVICE std::uint32_t most() const { return most_; }

 private:
  std::uint64_t begin_;
  std::uint32_t offset_[Most] = {};
  std::uint32_t size_[Most] = {};
  std::uint32_t most_;
};

// All-reduce, two shots, as all_reduce_two_shot_ll but with all of a pack's bytes data.
//
//     port 0   rank p: share r of xp --> rank r              reduce-scatter
//     port 1   rank r: share r of y  --> every rank          all-gather     two hops; 2 (N-1)/N S leave each rank
//
// Each port of the last set is cleared while the packs of this call are on their way to that port.
template <typename T, int Most>
BUSBW_DEVICE void all_reduce_part_in_two_shots(const KernelArguments& a, const Range& part) {
  const std::uint64_t bytes = a.count * sizeof(T);
  const PackRow<16> in(a.send, bytes);
  const PackRow<16> out(a.recv, bytes);
  const Shares<Most> shares(a, part);
  SentinelChannel<Most> channel(a);
  // Slots of a thread that are under way together; more do not fit into registers.
  constexpr int batch = Most <= 2 ? 2 : 1;
  const std::uint32_t step = batch * thread_count();
  const auto each = [&](std::uint32_t first, const auto& body) {
    BUSBW_UNROLL
    for (int k = 0; k < batch; ++k) BUSBW_UNROLL
    for (int i = 1; i < Most; ++i)
      if (i < a.ranks && first + k * thread_count() < shares.size(i)) body(first + k * thread_count(), k, i);
  };
  Pack<16> packs[batch][Most];
  for (std::uint32_t j = thread_index(); j < shares.most(); j += step) {
    // All loads before the first store, so that they are under way together.
    each(j, [&](std::uint32_t at, int k, int i) { packs[k][i] = in.load(shares.begin(i) + at); });
    each(j,
         [&](std::uint32_t at, int k, int i) { channel.send(0, peer_after(a, i), at, channel.sendable(packs[k][i])); });
  }
  channel.clear_last(0);
  for (std::uint32_t j = thread_index(); j < shares.size(0); j += step) {
    PackOfEach<16, Most> rows[batch];
    BUSBW_UNROLL
    for (int k = 0; k < batch; ++k) {
      if (j + k * thread_count() >= shares.size(0)) continue;
      const Pack<16> own = in.load(shares.begin(0) + j + k * thread_count());
      BUSBW_UNROLL
      for (int source = 0; source < Most; ++source) rows[k].from[source] = own;
    }
    channel.receive_from_all(0, j, shares.size(0), rows);
    BUSBW_UNROLL
    for (int k = 0; k < batch; ++k) {
      const std::uint32_t at = j + k * thread_count();
      if (at >= shares.size(0)) continue;
      const Pack<16> result = channel.sendable(PackReduction<T, 16>::run(rows[k], a.ranks, a.op));
      channel.send_to_all(1, at, result);
      out.store(shares.begin(0) + at, result);
    }
  }
  channel.clear_last(1);
  for (std::uint32_t j = thread_index(); j < shares.most(); j += step) {
    channel.receive(1, j, [&](std::uint64_t at, int i) { return at < shares.size(i); }, packs);
    each(j, [&](std::uint32_t at, int k, int i) { out.store(shares.begin(i) + at, packs[k][i]); });
  }
  channel.end(shares.most(), shares.most());
}

template <typename T, int Most>
BUSBW_DEVICE void all_reduce_two_shot_sentinel(const KernelArguments& a) {
  all_reduce_part_in_two_shots<T, Most>(a, channel_part(packs_of(a.count * sizeof(T), 16)));
}

// All-reduce, one shot: every rank sends its packs to all, and adds all of them itself.
template <typename T, int Most>
BUSBW_DEVICE void all_reduce_part_in_one_shot(const KernelArguments& a, const Range& part) {
  const std::uint64_t bytes = a.count * sizeof(T);
  const PackRow<16> in(a.send, bytes);
  const PackRow<16> out(a.recv, bytes);
  SentinelChannel<Most> channel(a);
  for (std::uint64_t j = thread_index(); j < part.size(); j += thread_count()) {
    channel.send_to_all(0, j, channel.sendable(in.load(part.begin + j)));
  }
  channel.clear_last(0);
  channel.clear_last(1);
  for (std::uint64_t j = thread_index(); j < part.size(); j += thread_count()) {
    // As the others got it, so that all add the same bits.
    PackOfEach<16, Most> rows[1];
    const Pack<16> own = channel.sendable(in.load(part.begin + j));
    BUSBW_UNROLL
    for (int source = 0; source < Most; ++source) rows[0].from[source] = own;
    channel.receive_from_all(0, j, part.size(), rows);
    out.store(part.begin + j, PackReduction<T, 16>::run(rows[0], a.ranks, a.op));
  }
  channel.end(part.size(), 0);
}

}  // namespace busbw::gpu

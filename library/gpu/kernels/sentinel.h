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

class SentinelChannel {
 public:
  BUSBW_DEVICE explicit SentinelChannel(const KernelArguments& arguments)
      : a_(arguments),
        channel_(static_cast<int>(channel_index())),
        last_set_(arguments.state[channel_].sentinel_set),
        set_(last_set_ + 1 == sentinel_sets ? 0 : last_set_ + 1),
        patience_(arguments.abort) {}

  BUSBW_DEVICE Range part_of(std::uint64_t packs) const { return Range{0, packs}.part(channel_, channel_count()); }

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

  BUSBW_DEVICE Pack<16> receive(int port, int source, std::uint64_t slot) {
    const unsigned char* pack = own_line(port, set_, source) + 16 * slot;
    Words words = load_relaxed(pack);
    while (!arrived(words) && patience_.again()) words = load_relaxed(pack);
    return pack_of(words);
  }

  // From every other rank, beside the own pack. All are looked at before any is waited for.
  BUSBW_DEVICE void receive_from_all(int port, std::uint64_t slot, const Pack<16>& own, PackOfEach<16>& row) {
    BUSBW_UNROLL
    for (int source = 0; source < max_ranks; ++source) row.from[source] = own;
    bool all;
    do {
      all = true;
      BUSBW_UNROLL
      for (int source = 0; source < max_ranks; ++source)
        if (source < a_.ranks && source != a_.rank)
          row.from[source] = pack_of(load_relaxed(own_line(port, set_, source) + 16 * slot));
      BUSBW_UNROLL
      for (int source = 0; source < max_ranks; ++source)
        if (source < a_.ranks && source != a_.rank) all = all && arrived(words_of(row.from[source]));
    } while (!all && patience_.again());
  }

  // Empties what the last call of this channel has filled. Any time during a call.
  BUSBW_DEVICE void clear_last() const {
    const std::uint32_t dirty = a_.state[channel_].sentinel_dirty;
    for (int port = 0; port < ports; ++port)
      for (int i = 1; i < a_.ranks; ++i)
        for (std::uint32_t slot = thread_index(); slot < dirty; slot += thread_count())
          store_relaxed(own_line(port, last_set_, peer_after(a_, i)) + 16 * slot,
                        {{sentinel, sentinel, sentinel, sentinel}});
  }

  // `used`: the slots of each line that this call may have filled.
  BUSBW_DEVICE void end(std::uint64_t used) {
    block_sync();
    if (thread_index() != 0) return;
    a_.state[channel_].sentinel_set = set_;
    a_.state[channel_].sentinel_dirty = static_cast<std::uint32_t>(used);
  }

 private:
  // Word by word: that 16 bytes arrive as one is promised nowhere.
  BUSBW_DEVICE static bool arrived(const Words& words) {
    return words.word[0] != sentinel && words.word[1] != sentinel && words.word[2] != sentinel &&
           words.word[3] != sentinel;
  }

  BUSBW_DEVICE unsigned char* own_line(int port, std::uint32_t set, int source) const {
    return a_.scratch[a_.rank] + a_.layout.sentinel(channel_, port, set, source);
  }

  const KernelArguments& a_;
  int channel_;
  std::uint32_t last_set_;
  std::uint32_t set_;
  Patience patience_;
};

// All-reduce, two shots, as all_reduce_two_shot_ll but with all of a pack's bytes data.
//
//     port 0   rank p: share r of xp --> rank r              reduce-scatter
//     port 1   rank r: share r of y  --> every rank          all-gather     two hops; 2 (N-1)/N S leave each rank
template <typename T>
BUSBW_DEVICE void all_reduce_two_shot_sentinel(const KernelArguments& a) {
  const std::uint64_t bytes = a.count * sizeof(T);
  const PackRow<16> in(a.send, bytes);
  const PackRow<16> out(a.recv, bytes);
  SentinelChannel channel(a);
  const Range part = channel.part_of(packs_of(bytes, 16));
  for (int i = 1; i < a.ranks; ++i) {
    const int peer = peer_after(a, i);
    const Range share = part.part(peer, a.ranks);
    for (std::uint64_t j = thread_index(); j < share.size(); j += thread_count())
      channel.send(0, peer, j, channel.sendable(in.load(share.begin + j)));
  }
  channel.clear_last();
  const Range mine = part.part(a.rank, a.ranks);
  for (std::uint64_t j = thread_index(); j < mine.size(); j += thread_count()) {
    const Pack<16> own = in.load(mine.begin + j);
    PackOfEach<16> row;
    channel.receive_from_all(0, j, own, row);
    const Pack<16> result = channel.sendable(PackReduction<T, 16>::run(row, a.ranks, a.op));
    channel.send_to_all(1, j, result);
    out.store(mine.begin + j, result);
  }
  for (int i = 1; i < a.ranks; ++i) {
    const int peer = peer_after(a, i);
    const Range share = part.part(peer, a.ranks);
    for (std::uint64_t j = thread_index(); j < share.size(); j += thread_count())
      out.store(share.begin + j, channel.receive(1, peer, j));
  }
  channel.end(packs_of(part.size(), a.ranks));
}

}  // namespace busbw::gpu

// LL: packets of 16 bytes that carry 8, each half with the epoch of the call beside its 4 bytes of data:
//
//     bytes   0       4       8       12     15
//             +-------+-------+-------+-------+
//             | data  | epoch | data  | epoch |
//             +-------+-------+-------+-------+
//
// A receiver looks at its own memory until both epochs are those of this call; then the data is there too, since each
// 8-byte half arrives as one. Nothing is fenced and nothing is acknowledged: one hop is one store and its flight.
//
// Why two sets of slots suffice. A kernel ends on a rank only after it has received something from every other rank, so
// when call k+1 has ended here, every peer had started it and thus had ended call k and read all of it. Call k+2 may
// therefore overwrite the slots of call k, and epochs alternate between two sets.
#pragma once

#include "library/gpu/kernels/arguments.h"
#include "library/gpu/kernels/pack.h"
#include "library/gpu/kernels/range.h"
#include "library/gpu/kernels/reduction.h"

namespace busbw::gpu {

inline constexpr std::uint32_t first_epoch = 2;  // cleared memory reads as 0, and 0 would be of the same set
inline constexpr std::uint32_t last_epoch = 0xffffffff;

BUSBW_BOTH constexpr std::uint32_t epoch_after(std::uint32_t epoch) {
  return epoch < first_epoch || epoch == last_epoch ? first_epoch : epoch + 1;
}
static_assert((first_epoch & 1) != (last_epoch & 1), "the sets alternate across the wrap");

// One block's end of all its connections during one call.
template <int Most>
class LlChannel {
 public:
  BUSBW_DEVICE explicit LlChannel(const KernelArguments& arguments)
      : a_(arguments),
        channel_(static_cast<int>(channel_index())),
        epoch_(next_epoch(arguments.state[channel_])),
        patience_(arguments.abort) {}

  BUSBW_DEVICE void send(int port, int peer, std::uint64_t slot, const Pack<8>& pack) const {
    unsigned char* line = a_.scratch[peer] + a_.layout.ll(channel_, port, epoch_, a_.rank);
    store_pairs(line + 16 * slot, half(pack.word[0]), half(pack.word[1]));
  }

  BUSBW_DEVICE void send_to_all(int port, std::uint64_t slot, const Pack<8>& pack) const {
    for (int i = 1; i < ranks_of<Most>(a_); ++i) send(port, peer_after(a_, i), slot, pack);
  }

  BUSBW_DEVICE Pack<8> receive(int port, int source, std::uint64_t slot) {
    const unsigned char* packet = own_line(port, source) + 16 * slot;
    std::uint64_t low, high;
    do {
      load_pairs(packet, low, high);
    } while (!arrived(low, high) && patience_.again());
    return data_of(low, high);
  }

  // From every other rank, beside the own pack. All are looked at before any is waited for.
  BUSBW_DEVICE void receive_from_all(int port, std::uint64_t slot, const Pack<8>& own, PackOfEach<8, Most>& row) {
    if constexpr (Most == 2) {
      const Pack<8> peers = receive(port, 1 - a_.rank, slot);
      row.from[0] = a_.rank == 0 ? own : peers;
      row.from[1] = a_.rank == 1 ? own : peers;
      return;
    }
    std::uint64_t low[Most]{}, high[Most]{};
    bool all;
    do {
      all = true;
      BUSBW_UNROLL
      for (int source = 0; source < Most; ++source)
        if (source < a_.ranks && source != a_.rank)
          load_pairs(own_line(port, source) + 16 * slot, low[source], high[source]);
      BUSBW_UNROLL
      for (int source = 0; source < Most; ++source)
        if (source < a_.ranks && source != a_.rank) all = all && arrived(low[source], high[source]);
    } while (!all && patience_.again());
    BUSBW_UNROLL
    for (int source = 0; source < Most; ++source)
      if (source < a_.ranks) row.from[source] = source == a_.rank ? Pack<8>(own) : data_of(low[source], high[source]);
  }

  // After everything has been received.
  BUSBW_DEVICE void end() {
    block_sync();
    // An epoch comes again after 2^32 calls. What still bears one from the last round is cleared in time; nobody writes
    // to this set before this rank has started the next call.
    if (epoch_ >= last_epoch - 1) clear();
    if (thread_index() == 0) a_.state[channel_].ll_epoch = epoch_;
  }

 private:
  // The kernel before has left its epoch there.
  BUSBW_DEVICE static std::uint32_t next_epoch(const ChannelState& state) {
    wait_for_previous();
    let_next_begin();
    return epoch_after(state.ll_epoch);
  }

  BUSBW_DEVICE std::uint64_t half(std::uint32_t data) const { return static_cast<std::uint64_t>(epoch_) << 32 | data; }
  BUSBW_DEVICE bool arrived(std::uint64_t low, std::uint64_t high) const {
    return (low >> 32) == epoch_ && (high >> 32) == epoch_;
  }
  BUSBW_DEVICE static Pack<8> data_of(std::uint64_t low, std::uint64_t high) {
    return {{static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(high)}};
  }

  BUSBW_DEVICE unsigned char* own_line(int port, int source) const {
    return a_.scratch[a_.rank] + a_.layout.ll(channel_, port, epoch_, source);
  }

  BUSBW_DEVICE void clear() const {
    for (int port = 0; port < ports; ++port)
      for (int source = 0; source < a_.ranks; ++source)
        for (unsigned i = thread_index(); i < ll_packets; i += thread_count())
          store_pairs(own_line(port, source) + 16 * i, 0, 0);
  }

  const KernelArguments& a_;
  int channel_;
  std::uint32_t epoch_;
  Patience patience_;
};

// All-reduce, one shot: every rank sends its whole vector to every other and reduces what it got.
//
//     rank 0  x0 --> 1, 2, 3       y = x0 + x1 + x2 + x3
//     rank 1  x1 --> 2, 3, 0       y = x0 + x1 + x2 + x3     one hop; (N-1) S leave each rank, twice over in packets
template <typename T, int Most>
BUSBW_DEVICE void all_reduce_one_shot_ll(const KernelArguments& a) {
  const std::uint64_t bytes = a.count * sizeof(T);
  const PackRow<8> in(a.send, bytes);
  const PackRow<8> out(a.recv, bytes);
  const Range part = channel_part(packs_of(bytes, 8));
  LlChannel<Most> channel(a);
  for (std::uint64_t i = part.begin + thread_index(); i < part.end; i += thread_count())
    channel.send_to_all(0, i - part.begin, in.load(i));
  for (std::uint64_t i = part.begin + thread_index(); i < part.end; i += thread_count()) {
    const Pack<8> own = in.load(i);
    PackOfEach<8, Most> row;
    channel.receive_from_all(0, i - part.begin, own, row);
    out.store(i, PackReduction<T, 8>::run(row, a.ranks, a.op));
  }
  channel.end();
}

// All-reduce, two shots: rank r reduces share r of every channel's part and sends the result to all.
//
//     port 0   rank p: share r of xp --> rank r              reduce-scatter
//     port 1   rank r: share r of y  --> every rank          all-gather     two hops; 2 (N-1)/N S leave each rank
//
// A result's packet leaves only after its thread has read all contributions, so that whoever has the result of a pack
// may reuse the slots of that pack: both ports follow the epochs of calls.
template <typename T, int Most>
BUSBW_DEVICE void all_reduce_two_shot_ll(const KernelArguments& a) {
  const std::uint64_t bytes = a.count * sizeof(T);
  const PackRow<8> in(a.send, bytes);
  const PackRow<8> out(a.recv, bytes);
  const Range part = channel_part(packs_of(bytes, 8));
  LlChannel<Most> channel(a);
  for (int i = 1; i < a.ranks; ++i) {
    const int peer = peer_after(a, i);
    const Range share = part.part(peer, a.ranks);
    for (std::uint64_t j = thread_index(); j < share.size(); j += thread_count())
      channel.send(0, peer, j, in.load(share.begin + j));
  }
  const Range mine = part.part(a.rank, a.ranks);
  for (std::uint64_t j = thread_index(); j < mine.size(); j += thread_count()) {
    const Pack<8> own = in.load(mine.begin + j);
    PackOfEach<8, Most> row;
    channel.receive_from_all(0, j, own, row);
    const Pack<8> result = PackReduction<T, 8>::run(row, a.ranks, a.op);
    channel.send_to_all(1, j, result);
    out.store(mine.begin + j, result);
  }
  for (int i = 1; i < a.ranks; ++i) {
    const int peer = peer_after(a, i);
    const Range share = part.part(peer, a.ranks);
    for (std::uint64_t j = thread_index(); j < share.size(); j += thread_count())
      out.store(share.begin + j, channel.receive(1, peer, j));
  }
  channel.end();
}

// Reduce-scatter: block r of every vector goes to rank r, which reduces. One hop.
template <typename T, int Most>
BUSBW_DEVICE void reduce_scatter_ll(const KernelArguments& a) {
  const std::uint64_t bytes = a.count * sizeof(T);
  const PackRow<8> mine(at(a.send, a.rank * bytes), bytes);
  const PackRow<8> out(a.recv, bytes);
  const Range part = channel_part(packs_of(bytes, 8));
  LlChannel<Most> channel(a);
  for (std::uint64_t i = part.begin + thread_index(); i < part.end; i += thread_count())
    for (int k = 1; k < a.ranks; ++k) {
      const int peer = peer_after(a, k);
      channel.send(0, peer, i - part.begin, PackRow<8>(at(a.send, peer * bytes), bytes).load(i));
    }
  for (std::uint64_t i = part.begin + thread_index(); i < part.end; i += thread_count()) {
    const Pack<8> own = mine.load(i);
    PackOfEach<8, Most> row;
    channel.receive_from_all(0, i - part.begin, own, row);
    out.store(i, PackReduction<T, 8>::run(row, a.ranks, a.op));
  }
  channel.end();
}

// What came from all the others, into their blocks of the output.
template <int Most>
BUSBW_DEVICE void receive_blocks(const KernelArguments& a, LlChannel<Most>& channel, const Range& part) {
  for (std::uint64_t i = part.begin + thread_index(); i < part.end; i += thread_count()) {
    PackOfEach<8, Most> row;
    channel.receive_from_all(0, i - part.begin, Pack<8>{}, row);
    BUSBW_UNROLL
    for (int source = 0; source < Most; ++source)
      if (source < a.ranks && source != a.rank)
        PackRow<8>(at(a.recv, source * a.count), a.count).store(i, row.from[source]);
  }
}

// All-gather: every rank's block to every rank. One hop.
template <int Most>
BUSBW_DEVICE void all_gather_ll(const KernelArguments& a) {
  const PackRow<8> in(a.send, a.count);
  const PackRow<8> own(at(a.recv, a.rank * a.count), a.count);
  const Range part = channel_part(packs_of(a.count, 8));
  LlChannel<Most> channel(a);
  for (std::uint64_t i = part.begin + thread_index(); i < part.end; i += thread_count()) {
    const Pack<8> pack = in.load(i);
    channel.send_to_all(0, i - part.begin, pack);
    own.store(i, pack);
  }
  receive_blocks(a, channel, part);
  channel.end();
}

// All-to-all: block r of rank p's buffer becomes block p of rank r's. One hop.
template <int Most>
BUSBW_DEVICE void all_to_all_ll(const KernelArguments& a) {
  const Range part = channel_part(packs_of(a.count, 8));
  LlChannel<Most> channel(a);
  for (std::uint64_t i = part.begin + thread_index(); i < part.end; i += thread_count()) {
    for (int k = 1; k < a.ranks; ++k) {
      const int peer = peer_after(a, k);
      channel.send(0, peer, i - part.begin, PackRow<8>(at(a.send, peer * a.count), a.count).load(i));
    }
    const std::uint64_t own = a.rank * a.count;
    PackRow<8>(at(a.recv, own), a.count).store(i, PackRow<8>(at(a.send, own), a.count).load(i));
  }
  receive_blocks(a, channel, part);
  channel.end();
}

// Broadcast: the root's vector to every rank. The others send one empty packet to each rank, so that this call too ends
// on a rank only after all have started it, which the two sets of slots rest on.
template <int Most>
BUSBW_DEVICE void broadcast_ll(const KernelArguments& a) {
  const PackRow<8> in(a.send, a.count);
  const PackRow<8> out(a.recv, a.count);
  const Range part = channel_part(packs_of(a.count, 8));
  LlChannel<Most> channel(a);
  if (a.rank != a.root && channel_index() == 0 && thread_index() == 0) channel.send_to_all(0, 0, Pack<8>{});
  for (std::uint64_t i = part.begin + thread_index(); i < part.end; i += thread_count()) {
    if (a.rank != a.root) {
      out.store(i, channel.receive(0, a.root, i - part.begin));
      continue;
    }
    const Pack<8> pack = in.load(i);
    channel.send_to_all(0, i - part.begin, pack);
    if (a.send != a.recv) out.store(i, pack);
  }
  if (channel_index() == 0 && thread_index() == 0) {
    for (int source = 0; source < a.ranks; ++source)
      if (source != a.rank && source != a.root) channel.receive(0, source, 0);
  }
  channel.end();
}

}  // namespace busbw::gpu

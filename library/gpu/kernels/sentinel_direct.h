// Direct collectives by sentinels (sentinel.h): each rank's data goes in one hop to where it is needed.
//
//     rank 0   b0 b1 b2      port 0: packs, nothing but data        rank 1   from 0, from 2
//              |  |  +-----> rank 2
//              |  +--------> rank 1
//              +-> itself    port 1, LL: one note a channel, "all of it is as you see it"
//
// A reduction may change a NaN's payload; what is only moved must arrive bit by bit. A word of data that happens to be
// the sentinel travels as its neighbour all the same, and the receiver puts it right. So with every call, each channel
// sends each peer one note by LL: is there such a word? Only then follow, by LL too, the places of these words: 64 bits
// for 16 packs of a thread, from each thread to the thread of the same index, which has received the same packs.
//
// As every rank gets a note from every other in each channel, a call ends on a rank only after all have started it,
// which the sets of both protocols rest on.
#pragma once

#include "library/gpu/kernels/ll.h"
#include "library/gpu/kernels/sentinel.h"

namespace busbw::gpu {

// Moves a channel's part of every rank's data. Sources and targets are rows of packs by peer: row(i) goes to, or comes
// from, peer_after(i).
template <int Most>
class SentinelMove {
 public:
  BUSBW_DEVICE SentinelMove(const KernelArguments& arguments, const Range& part)
      : a_(arguments), part_(part), packs_(arguments), notes_(arguments) {}

  // A source says whether it sends() at all, and has load(index, packs), which fills those for all peers, and row(i); a
  // target has wants(i), row(i), and keep(index), which copies what goes from this rank to itself.
  template <typename Source, typename Target>
  BUSBW_DEVICE void run(const Source& from, const Target& to) {
    const std::uint64_t round = thread_count();
    std::uint64_t slot = thread_index();
    // What was sent a round ago is received: no thread waits for all its packs to have left.
    for (; slot < part_.size(); slot += round) {
      if (from.sends()) send(from, slot);
      packs_.clear_last_slot(0, slot);
      if (slot >= round) receive(to, slot - round);
    }
    tell(from);
    packs_.clear_last(0, part_.size());
    packs_.clear_last(1);
    if (slot >= round) receive(to, slot - round);
    if (told()) correct(to);
    notes_.end();
    packs_.end(part_.size(), 0);
  }

 private:
  template <typename Source>
  BUSBW_DEVICE void send(const Source& from, std::uint64_t slot) {
    Pack<16> packs[Most];
    from.load(part_.begin + slot, packs);
    BUSBW_UNROLL
    for (int i = 1; i < Most; ++i) {
      if (i >= a_.ranks) continue;
      BUSBW_UNROLL
      for (const std::uint32_t word : packs[i].word) changed_ |= word == sentinel;
      packs_.send(0, peer_after(a_, i), slot, packs_.sendable(packs[i]));
    }
  }

  template <typename Target>
  BUSBW_DEVICE void receive(const Target& to, std::uint64_t slot) {
    to.keep(part_.begin + slot);
    Pack<16> packs[1][Most];
    packs_.receive(0, slot, [&](std::uint64_t, int i) { return to.wants(i); }, packs);
    BUSBW_UNROLL
    for (int i = 1; i < Most; ++i)
      if (i < a_.ranks && to.wants(i)) to.row(i).store(part_.begin + slot, packs[0][i]);
  }

  // Whether words were changed on their way, and which.
  template <typename Source>
  BUSBW_DEVICE void tell(const Source& from) {
    const bool any = block_any(changed_);
    if (thread_index() == 0) notes_.send_to_all(1, 0, {{any ? 1u : 0u, 0u}});
    if (!any) return;
    for (int i = 1; i < a_.ranks; ++i) {
      for (std::uint32_t number = 0; number < notes(); ++number) {
        Pack<8> note{};
        each_of_note(number, [&](std::uint32_t k, std::uint64_t slot) {
          const Pack<16> pack = from.row(i).load(part_.begin + slot);
          for (std::uint32_t word = 0; word < 4; ++word)
            if (pack.word[word] == sentinel) note.word[k / 8] |= 1u << (4 * (k % 8) + word);
        });
        notes_.send(0, peer_after(a_, i), thread_index() + number * thread_count(), note);
      }
    }
  }

  // Whether any peer's note says that words were changed, once all notes are here.
  BUSBW_DEVICE bool told() {
    bool any = false;
    for (int source = static_cast<int>(thread_index()); source < a_.ranks; source += static_cast<int>(thread_count()))
      if (source != a_.rank) any |= notes_.receive(1, source, 0).word[0] != 0;
    return block_any(any);
  }

  template <typename Target>
  BUSBW_DEVICE void correct(const Target& to) {
    for (int i = 1; i < a_.ranks; ++i) {
      const int peer = peer_after(a_, i);
      if (!to.wants(i) || notes_.receive(1, peer, 0).word[0] == 0) continue;
      for (std::uint32_t number = 0; number < notes(); ++number) {
        const Pack<8> note = notes_.receive(0, peer, thread_index() + number * thread_count());
        each_of_note(number, [&](std::uint32_t k, std::uint64_t slot) {
          for (std::uint32_t word = 0; word < 4; ++word)
            if (note.word[k / 8] >> (4 * (k % 8) + word) & 1) to.row(i).store_word(part_.begin + slot, word, sentinel);
        });
      }
    }
  }

  // For note `number` of this thread: visit(index of the pack in its note, slot) for its packs.
  template <typename Visit>
  BUSBW_DEVICE void each_of_note(std::uint32_t number, const Visit& visit) const {
    for (std::uint32_t k = 0; k < packs_of_a_note; ++k) {
      const std::uint64_t slot = thread_index() + (number * packs_of_a_note + k) * thread_count();
      if (slot < part_.size()) visit(k, slot);
    }
  }

  BUSBW_DEVICE std::uint32_t notes() const { return notes_of_a_thread(part_.size(), thread_count()); }

  const KernelArguments& a_;
  Range part_;
  SentinelChannel<Most> packs_;
  LlChannel<Most> notes_;
  bool changed_ = false;
};

// One row that goes to every peer.
template <int Most>
struct RowToAll {
  PackRow<16> packs;
  bool is_sent;

  BUSBW_DEVICE bool sends() const { return is_sent; }
  BUSBW_DEVICE const PackRow<16>& row(int) const { return packs; }
  BUSBW_DEVICE void load(std::uint64_t index, Pack<16> (&to)[Most]) const {
    const Pack<16> pack = packs.load(index);
    BUSBW_UNROLL
    for (int i = 1; i < Most; ++i) to[i] = pack;
  }
};

// A block of `a.count` bytes for each rank, one behind the other.
struct Blocks {
  const KernelArguments& a;
  const void* memory;

  BUSBW_DEVICE PackRow<16> of(int rank) const { return PackRow<16>(at(memory, rank * a.count), a.count); }
  BUSBW_DEVICE PackRow<16> row(int i) const { return of(peer_after(a, i)); }
};

// Each peer's block to that peer.
template <int Most>
struct BlockToEach : Blocks {
  BUSBW_DEVICE bool sends() const { return true; }
  BUSBW_DEVICE void load(std::uint64_t index, Pack<16> (&to)[Most]) const {
    BUSBW_UNROLL
    for (int i = 1; i < Most; ++i)
      if (i < a.ranks) to[i] = row(i).load(index);
  }
};

// Every peer's block beside the own one, which comes from `own` unless it lies there already.
struct BlockOfEach : Blocks {
  PackRow<16> own;
  bool in_place;

  BUSBW_DEVICE bool wants(int) const { return true; }
  BUSBW_DEVICE void keep(std::uint64_t index) const {
    if (!in_place) of(a.rank).store(index, own.load(index));
  }
};

// The root's row.
struct RowOfRoot {
  const KernelArguments& a;
  PackRow<16> packs;
  PackRow<16> own;
  bool in_place;

  BUSBW_DEVICE bool wants(int i) const { return a.rank != a.root && peer_after(a, i) == a.root; }
  BUSBW_DEVICE const PackRow<16>& row(int) const { return packs; }
  BUSBW_DEVICE void keep(std::uint64_t index) const {
    if (a.rank == a.root && !in_place) packs.store(index, own.load(index));
  }
};

// All-gather: every rank's block to every rank. One hop; (N-1) S leave each rank.
template <int Most>
BUSBW_DEVICE void all_gather_sentinel(const KernelArguments& a) {
  const PackRow<16> in(a.send, a.count);
  SentinelMove<Most> move(a, channel_part(packs_of(a.count, 16)));
  move.run(RowToAll<Most>{in, true}, BlockOfEach{{a, a.recv}, in, a.send == at(a.recv, a.rank * a.count)});
}

// All-to-all: block r of rank p's buffer becomes block p of rank r's. One hop; (N-1) S leave each rank.
template <int Most>
BUSBW_DEVICE void all_to_all_sentinel(const KernelArguments& a) {
  const BlockToEach<Most> from{{a, a.send}};
  SentinelMove<Most> move(a, channel_part(packs_of(a.count, 16)));
  move.run(from, BlockOfEach{{a, a.recv}, from.of(a.rank), false});
}

// Broadcast: the root's vector to every rank. One hop; (N-1) S leave the root. The others have only notes to send.
template <int Most>
BUSBW_DEVICE void broadcast_sentinel(const KernelArguments& a) {
  const PackRow<16> in(a.send, a.count);
  SentinelMove<Most> move(a, channel_part(packs_of(a.count, 16)));
  move.run(RowToAll<Most>{in, a.rank == a.root}, RowOfRoot{a, PackRow<16>(a.recv, a.count), in, a.send == a.recv});
}

// Reduce-scatter: block r of every vector goes to rank r, which reduces. One hop; (N-1) S leave each rank. A NaN may be
// another one, so that there are no notes.
template <typename T, int Most>
BUSBW_DEVICE void reduce_scatter_sentinel(const KernelArguments& a) {
  const std::uint64_t bytes = a.count * sizeof(T);
  const auto from = [&](int rank) { return PackRow<16>(at(a.send, rank * bytes), bytes); };
  const PackRow<16> out(a.recv, bytes);
  const Range part = channel_part(packs_of(bytes, 16));
  SentinelChannel<Most> channel(a);
  const std::uint64_t round = thread_count();
  for (std::uint64_t slot = thread_index(); slot < part.size() + round; slot += round) {
    if (slot < part.size()) {
      Pack<16> packs[Most];
      BUSBW_UNROLL
      for (int i = 1; i < Most; ++i)
        if (i < a.ranks) packs[i] = from(peer_after(a, i)).load(part.begin + slot);
      BUSBW_UNROLL
      for (int i = 1; i < Most; ++i)
        if (i < a.ranks) channel.send(0, peer_after(a, i), slot, channel.sendable(packs[i]));
      channel.clear_last_slot(0, slot);
    }
    if (slot < round) {
      channel.clear_last(0, part.size());
      channel.clear_last(1);
      continue;
    }
    const std::uint64_t last = slot - round;
    const Pack<16> own = from(a.rank).load(part.begin + last);
    PackOfEach<16, Most> row[1];
    BUSBW_UNROLL
    for (int source = 0; source < Most; ++source) row[0].from[source] = own;
    channel.receive_from_all(0, last, part.size(), row);
    out.store(part.begin + last, PackReduction<T, 16>::run(row[0], a.ranks, a.op));
  }
  channel.end(part.size(), 0);
}

}  // namespace busbw::gpu

// Every interleaving of a few calls of the sentinel protocol: packs without tags, in three sets that take turns.
//
//   call      k-1         k          k+1         (k+2 as k-1)
//   set        0          1           2
//              |          |           |
//   at call k: cleared    filled by   may be filled already by a peer
//              by owner   the peers   that has finished call k
//
// A slot holds the sentinel until data arrive. At call k a rank sends into set k mod 3 of its peers, waits until no
// slot of its own set holds the sentinel, and writes sentinels over what call k-1 filled. A call carries one pack or
// two to each peer, and only as many are cleared. Stores to one address keep their order, others do not.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "library/tests/gpu/kernels/search.h"

namespace busbw::gpu::model {
namespace {

struct SentinelModel {
  static constexpr int most_ranks = 3;
  static constexpr int most_packs = 2;
  static constexpr int most_sets = 3;
  static constexpr std::uint8_t sentinel = 0;  // data are call number + 1

  int ranks = 2;
  int calls = 6;
  int packs = 1;  // of a long call
  int sets = 3;
  bool clears_the_next_set = false;

  struct Address {
    std::uint8_t held = sentinel;
    std::array<std::uint8_t, 2> under_way{};
  };
  struct State {
    std::array<std::uint8_t, most_ranks> call{};
    std::array<std::uint8_t, most_ranks> sent{};
    std::array<std::uint8_t, most_ranks> cleared{};
    std::array<std::uint8_t, most_ranks> received{};  // bit per source and pack
    std::uint8_t chosen = 0;                          // calls whose length is in `longs`
    std::uint8_t longs = 0;
    Address slots[most_ranks][most_sets][most_ranks][most_packs]{};
  };

  State start() const { return {}; }
  bool done(const State& s) const {
    for (int r = 0; r < ranks; ++r) {
      if (s.call[r] < calls) return false;
    }
    return true;
  }
  int length(const State& s, int call) const { return packs == 1 || (s.longs >> call & 1) ? packs : 1; }
  static std::uint8_t bit(int source, int pack) { return std::uint8_t(1 << (source * most_packs + pack)); }

  std::uint8_t awaited(const State& s, int rank) const {
    std::uint8_t bits = 0;
    for (int source = 0; source < ranks; ++source) {
      for (int p = 0; source != rank && p < length(s, s.call[rank]); ++p) bits |= bit(source, p);
    }
    return bits;
  }
  bool unread(const State& s, int rank, int source, int pack, std::uint8_t held) const {
    if (held == sentinel) return false;
    return held - 1 > s.call[rank] || (held - 1 == s.call[rank] && !(s.received[rank] & bit(source, pack)));
  }

  template <typename Emit>
  void each_step(const State& s, Emit emit) const {
    for (int r = 0; r < ranks; ++r) {
      deliveries(s, r, emit);
      if (s.call[r] >= calls) continue;
      if (s.call[r] == s.chosen) {
        choose_length(s, r, emit);
        continue;
      }
      if (!s.sent[r]) send(s, r, emit);
      if (!s.cleared[r]) clear(s, r, emit);
      if (s.sent[r]) receive(s, r, emit);
      if (s.sent[r] && s.cleared[r] && s.received[r] == awaited(s, r)) finish(s, r, emit);
    }
  }

 private:
  template <typename Emit>
  void choose_length(const State& s, int r, Emit emit) const {
    for (int is_long = 0; is_long < (packs == 1 ? 1 : 2); ++is_long) {
      State next = s;
      if (is_long) next.longs |= std::uint8_t(1u << s.chosen);
      next.chosen++;
      emit(next, Event{is_long ? "a long call" : "a call", r, r, s.chosen}, nullptr);
    }
  }

  template <typename Emit>
  void send(const State& s, int r, Emit emit) const {
    State next = s;
    next.sent[r] = 1;
    for (int peer = 0; peer < ranks; ++peer) {
      for (int p = 0; peer != r && p < length(s, s.call[r]); ++p) {
        auto& line = next.slots[peer][s.call[r] % sets][r][p].under_way;
        if (line[1] != sentinel) return;  // the network is full
        line[line[0] == sentinel ? 0 : 1] = std::uint8_t(s.call[r] + 1);
      }
    }
    emit(next, Event{"sends call", r, r, s.call[r]}, nullptr);
  }

  template <typename Emit>
  void deliveries(const State& s, int r, Emit emit) const {
    for (int set = 0; set < sets; ++set) {
      for (int source = 0; source < ranks; ++source) {
        for (int p = 0; p < packs; ++p) {
          const Address& slot = s.slots[r][set][source][p];
          if (slot.under_way[0] == sentinel) continue;
          State next = s;
          next.slots[r][set][source][p] = {slot.under_way[0], {slot.under_way[1], sentinel}};
          emit(next, Event{"gets call", r, source, slot.under_way[0] - 1},
               unread(s, r, source, p, slot.held) ? "a pack was overwritten before it was read" : nullptr);
        }
      }
    }
  }

  // At any moment of the call: nothing in the kernel waits for it.
  template <typename Emit>
  void clear(const State& s, int r, Emit emit) const {
    State next = s;
    next.cleared[r] = 1;
    const int call = s.call[r];
    const int set = (clears_the_next_set ? call + 1 : call + sets - 1) % sets;
    const int dirty = clears_the_next_set ? packs : call == 0 ? 0 : length(s, call - 1);
    const char* wrong = nullptr;
    for (int source = 0; source < ranks; ++source) {
      for (int p = 0; p < dirty; ++p) {
        if (unread(s, r, source, p, s.slots[r][set][source][p].held)) wrong = "a pack was cleared before it was read";
        next.slots[r][set][source][p].held = sentinel;
      }
    }
    emit(next, Event{"clears at call", r, r, call}, wrong);
  }

  template <typename Emit>
  void receive(const State& s, int r, Emit emit) const {
    for (int source = 0; source < ranks; ++source) {
      for (int p = 0; p < packs; ++p) {
        const std::uint8_t held = s.slots[r][s.call[r] % sets][source][p].held;
        if (!(awaited(s, r) & bit(source, p) & ~s.received[r]) || held == sentinel) continue;
        State next = s;
        next.received[r] |= bit(source, p);
        emit(next, Event{"reads call", r, source, held - 1},
             held - 1 == s.call[r] ? nullptr : "a pack of an earlier call was taken for a new one");
      }
    }
  }

  template <typename Emit>
  void finish(const State& s, int r, Emit emit) const {
    State next = s;
    next.sent[r] = next.cleared[r] = next.received[r] = 0;
    next.call[r]++;
    emit(next, Event{"ends call", r, r, s.call[r]}, nullptr);
  }
};

TEST(SentinelModel, OverwritesNoPackAndNeverHangsWithThreeSets) {
  for (const SentinelModel& model :
       {SentinelModel{.ranks = 2, .calls = 7}, SentinelModel{.ranks = 2, .calls = 6, .packs = 2},
        SentinelModel{.ranks = 3, .calls = 5}}) {
    const Verdict verdict = search(model);
    EXPECT_EQ(verdict.wrong, "") << verdict.trace;
    EXPECT_GT(verdict.states, 100u);
  }
}

TEST(SentinelModel, ClearsAPackThatAFasterPeerSentWithTwoSets) {
  const Verdict verdict = search(SentinelModel{.ranks = 2, .calls = 5, .sets = 2});
  EXPECT_EQ(verdict.wrong, "a pack was cleared before it was read") << verdict.trace;
}

TEST(SentinelModel, ClearsAPackThatAFasterPeerSentWhereTheNextSetIsCleared) {
  const Verdict verdict = search(SentinelModel{.ranks = 2, .calls = 5, .clears_the_next_set = true});
  EXPECT_EQ(verdict.wrong, "a pack was cleared before it was read") << verdict.trace;
}

}  // namespace
}  // namespace busbw::gpu::model

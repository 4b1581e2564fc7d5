// Every interleaving of a two-shot all-reduce with the Simple protocol: slots in turn, a counter of filled ones, and a
// counter of read ones as credit.
//
//   sender                                reader's scratch              reader
//   wait: step - read counter < D         [slot = step mod D]           wait: filled counter > step
//   store data  ------------------------> data                    ----> read the data
//   fence; store filled  ---------------> filled counter                store read
//   read counter <--------------------------------------------------------'
//
// A channel's loop is pipelined: at time t a rank pushes chunk t of its contribution to the owners (port 0), reduces
// chunk t-1 and pushes the result to all (port 1), and copies out chunk t-2. So a push waits for credit while what the
// peer would have to read for it comes later in the peer's own loop, unless there are two slots.
//
// A counter is seen as soon as it is stored: seen later, it only makes its reader slower, which the search tries
// anyway.
#include <gtest/gtest.h>

#include <cstdint>

#include "library/gpu/kernels/layout.h"
#include "library/tests/gpu/search.h"

namespace busbw::gpu::model {
namespace {

struct SimpleModel {
  static constexpr int most_ranks = 3;
  static constexpr int most_slots = 4;

  int ranks = 2;
  int chunks = 4;
  int slots = 2;
  bool waits_for_credit = true;
  bool fences = true;  // the data have arrived before the counter is stored

  // One direction between two ranks in one port. Each address is stored in order, so that counts tell what lies there
  // and what is still under way.
  struct Connection {
    std::uint8_t pushed = 0;             // chunks whose data are stored
    std::uint8_t arrived[most_slots]{};  // times that each slot was filled
    std::uint8_t filled = 0;             // the filled counter
    std::uint8_t taken = 0;              // chunks that the reader has read: the read counter
  };
  // Where a rank is in its loop: the part of the loop's body, which peer, and what comes next with this peer.
  struct Rank {
    std::uint8_t time = 0;
    std::uint8_t part = 0;  // 0: push t, 1: take t-1, 2: push its result, 3: copy t-2 out
    std::uint8_t peer = 0;
    std::uint8_t unpublished = 0;  // the data of this push are stored, its counter is not
  };
  struct State {
    Rank rank[most_ranks]{};
    Connection connection[2][most_ranks][most_ranks]{};  // [port][from][to]
  };

  State start() const {
    State s;
    s.rank[0].peer = 1;  // nobody pushes to itself
    return s;
  }
  bool done(const State& s) const {
    for (int r = 0; r < ranks; ++r) {
      if (s.rank[r].time < chunks + 2) return false;
    }
    return true;
  }

  template <typename Emit>
  void each_step(const State& s, Emit emit) const {
    for (int port = 0; port < 2; ++port) {
      for (int from = 0; from < ranks; ++from) {
        for (int to = 0; to < ranks; ++to) {
          if (from != to) deliveries(s, port, from, to, emit);
        }
      }
    }
    for (int r = 0; r < ranks; ++r) {
      if (s.rank[r].time < chunks + 2) act(s, r, emit);
    }
  }

 private:
  // Times that `pushed` chunks fill this slot.
  int fills(int pushed, int slot) const { return pushed > slot ? (pushed - slot - 1) / slots + 1 : 0; }

  template <typename Emit>
  void deliveries(const State& s, int port, int from, int to, Emit emit) const {
    const Connection& c = s.connection[port][from][to];
    for (int slot = 0; slot < slots; ++slot) {
      if (c.arrived[slot] == fills(c.pushed, slot)) continue;
      State next = s;
      next.connection[port][from][to].arrived[slot]++;
      const bool unread = c.arrived[slot] > fills(c.taken, slot);
      emit(next, Event{"gets data in slot", to, from, slot},
           unread ? "a slot was overwritten before it was read" : nullptr);
    }
  }

  bool all_arrived(const Connection& c) const {
    for (int slot = 0; slot < slots; ++slot) {
      if (c.arrived[slot] != fills(c.pushed, slot)) return false;
    }
    return true;
  }

  // The chunk that a part of the loop's body is about at this time; -1: none.
  int chunk_of(const Rank& rank) const {
    const int chunk = rank.time - (rank.part == 0 ? 0 : rank.part == 3 ? 2 : 1);
    return chunk >= 0 && chunk < chunks ? chunk : -1;
  }

  // To the next part and peer with something to do, or to the end.
  void advance(Rank& rank, int r) const {
    do {
      if (++rank.peer < ranks) continue;
      rank.peer = 0;
      if (++rank.part < 4) continue;
      rank.part = 0;
      rank.time++;
    } while (rank.time < chunks + 2 && (rank.peer == r || chunk_of(rank) < 0));
  }

  template <typename Emit>
  void act(const State& s, int r, Emit emit) const {
    const Rank& rank = s.rank[r];
    if (rank.part == 0 || rank.part == 2) {
      push_to(s, r, rank.part == 0 ? 0 : 1, emit);
    } else {
      take_from(s, r, rank.part == 1 ? 0 : 1, emit);
    }
  }

  template <typename Emit>
  void push_to(const State& s, int r, int port, Emit emit) const {
    const int peer = s.rank[r].peer;
    const Connection& c = s.connection[port][r][peer];
    State next = s;
    Connection& changed = next.connection[port][r][peer];
    if (!s.rank[r].unpublished) {
      if (waits_for_credit && c.pushed - c.taken >= slots) return;
      changed.pushed++;
      next.rank[r].unpublished = 1;
      emit(next, Event{"stores the data of chunk", r, peer, c.pushed}, nullptr);
      return;
    }
    if (fences && !all_arrived(c)) return;
    changed.filled++;
    next.rank[r].unpublished = 0;
    advance(next.rank[r], r);
    emit(next, Event{"stores filled", r, peer, changed.filled}, nullptr);
  }

  template <typename Emit>
  void take_from(const State& s, int r, int port, Emit emit) const {
    const int peer = s.rank[r].peer;
    const Connection& c = s.connection[port][peer][r];
    if (c.filled <= c.taken) return;
    const int slot = c.taken % slots;
    const bool right = c.arrived[slot] == fills(c.taken + 1, slot);
    State next = s;
    Connection& changed = next.connection[port][peer][r];
    changed.taken++;
    advance(next.rank[r], r);
    emit(next, Event{"reads chunk", r, peer, c.taken}, right ? nullptr : "a slot was read that did not hold the chunk");
  }
};

TEST(SimpleModel, OverwritesNoSlotAndNeverHangsWithTwoSlotsOrMore) {
  for (const int slots : {2, 3, 4}) {
    const Verdict verdict = search(SimpleModel{.ranks = 2, .chunks = 3 * slots + 1, .slots = slots});
    EXPECT_EQ(verdict.wrong, "") << slots << " slots:\n" << verdict.trace;
    EXPECT_GT(verdict.states, 500u);
    RecordProperty("states", int(verdict.states));
  }
}

TEST(SimpleModel, OverwritesNoSlotAndNeverHangsBetweenThreeRanks) {
  const Verdict verdict = search(SimpleModel{.ranks = 3, .chunks = 4, .slots = 2});
  EXPECT_EQ(verdict.wrong, "") << verdict.trace;
  EXPECT_GT(verdict.states, 500u);
  RecordProperty("states", int(verdict.states));
}

// Each waits to push chunk 1 until the other has read chunk 0, which the other does after its own push.
TEST(SimpleModel, HangsWithOneSlotBecauseTheLoopPushesBeforeItReads) {
  EXPECT_EQ(search(SimpleModel{.ranks = 2, .chunks = 2, .slots = 1}).wrong, "deadlock");
  EXPECT_GE(simple_slots, 2);
}

TEST(SimpleModel, OverwritesASlotWithoutWaitingForCredit) {
  const Verdict verdict = search(SimpleModel{.ranks = 2, .chunks = 4, .slots = 2, .waits_for_credit = false});
  EXPECT_EQ(verdict.wrong, "a slot was overwritten before it was read") << verdict.trace;
}

TEST(SimpleModel, ReadsASlotThatIsNotFilledWhereTheCounterIsStoredBeforeTheData) {
  const Verdict verdict = search(SimpleModel{.ranks = 2, .chunks = 4, .slots = 2, .fences = false});
  EXPECT_EQ(verdict.wrong, "a slot was read that did not hold the chunk") << verdict.trace;
}

}  // namespace
}  // namespace busbw::gpu::model

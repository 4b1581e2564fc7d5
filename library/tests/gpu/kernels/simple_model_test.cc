// Every interleaving of a two-shot all-reduce with the Simple protocol: slots in turn, a counter of filled ones, and a
// counter of read ones as credit.
//
//   sender                                reader's scratch              reader
//   wait: step - read counter < D         [slot = step mod D]           wait: filled counter > step
//   store data  ------------------------> data                    ----> read the data
//   fence; store filled  ---------------> filled counter                store read
//   read counter <--------------------------------------------------------'
//
// A channel is three stages that work at once: stage 0 pushes chunk t of the own contribution to the owners (port 0),
// stage 1 reduces chunk t and pushes the result to all (port 1), stage 2 copies chunk t out. That a stage's clerk
// publishes a chunk while its workers are at the next one is left to the simulated machine (kernels_test.cc).
//
// A counter is seen as soon as it is stored: seen later, it only makes its reader slower, which the search tries
// anyway.
#include <gtest/gtest.h>

#include <cstdint>

#include "library/gpu/kernels/layout.h"
#include "library/tests/gpu/kernels/search.h"

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
  // Where a stage is: its chunk, whether it takes or pushes it, which peer, and what comes next with this peer.
  struct Stage {
    std::uint8_t chunk = 0;
    std::uint8_t pushes = 0;  // stage 1 takes a chunk from all, then pushes its result to all
    std::uint8_t peer = 0;
    std::uint8_t unpublished = 0;  // the data of this push are stored, its counter is not
  };
  struct Rank {
    Stage stage[3]{};
  };
  struct State {
    Rank rank[most_ranks]{};
    Connection connection[2][most_ranks][most_ranks]{};  // [port][from][to]
  };

  State start() const {
    State s;
    for (int r = 0; r < ranks; ++r) {
      for (Stage& stage : s.rank[r].stage) stage.peer = r == 0 ? 1 : 0;  // nobody talks to itself
      s.rank[r].stage[0].pushes = 1;
    }
    return s;
  }
  bool done(const State& s) const {
    for (int r = 0; r < ranks; ++r) {
      for (const Stage& stage : s.rank[r].stage)
        if (stage.chunk < chunks) return false;
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
      for (int stage = 0; stage < 3; ++stage)
        if (s.rank[r].stage[stage].chunk < chunks) act(s, r, stage, emit);
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

  // To the next peer, from taking to pushing, or to the next chunk.
  void advance(Stage& stage, int number, int r) const {
    do {
      if (++stage.peer < ranks) continue;
      stage.peer = 0;
      if (number == 1) stage.pushes ^= 1;
      if (number != 1 || !stage.pushes) stage.chunk++;
    } while (stage.peer == r);
  }

  template <typename Emit>
  void act(const State& s, int r, int stage, Emit emit) const {
    if (s.rank[r].stage[stage].pushes) {
      push_to(s, r, stage, emit);
    } else {
      take_from(s, r, stage, emit);
    }
  }

  template <typename Emit>
  void push_to(const State& s, int r, int stage, Emit emit) const {
    const int port = stage;
    const int peer = s.rank[r].stage[stage].peer;
    const Connection& c = s.connection[port][r][peer];
    State next = s;
    Connection& changed = next.connection[port][r][peer];
    if (!s.rank[r].stage[stage].unpublished) {
      if (waits_for_credit && c.pushed - c.taken >= slots) return;
      changed.pushed++;
      next.rank[r].stage[stage].unpublished = 1;
      emit(next, Event{"stores the data of chunk", r, peer, c.pushed}, nullptr);
      return;
    }
    if (fences && !all_arrived(c)) return;
    changed.filled++;
    next.rank[r].stage[stage].unpublished = 0;
    advance(next.rank[r].stage[stage], stage, r);
    emit(next, Event{"stores filled", r, peer, changed.filled}, nullptr);
  }

  template <typename Emit>
  void take_from(const State& s, int r, int stage, Emit emit) const {
    const int port = stage - 1;
    const int peer = s.rank[r].stage[stage].peer;
    const Connection& c = s.connection[port][peer][r];
    if (c.filled <= c.taken) return;
    const int slot = c.taken % slots;
    const bool right = c.arrived[slot] == fills(c.taken + 1, slot);
    State next = s;
    Connection& changed = next.connection[port][peer][r];
    changed.taken++;
    advance(next.rank[r].stage[stage], stage, r);
    emit(next, Event{"reads chunk", r, peer, c.taken}, right ? nullptr : "a slot was read that did not hold the chunk");
  }
};

TEST(SimpleModel, OverwritesNoSlotAndNeverHangsWithAnyNumberOfSlots) {
  for (const int slots : {1, 2, 3}) {
    const Verdict verdict = search(SimpleModel{.ranks = 2, .chunks = slots + 2, .slots = slots});
    EXPECT_EQ(verdict.wrong, "") << slots << " slots:\n" << verdict.trace;
    EXPECT_GT(verdict.states, 500u);
    RecordProperty("states", int(verdict.states));
  }
}

TEST(SimpleModel, OverwritesNoSlotAndNeverHangsBetweenThreeRanks) {
  const Verdict verdict = search(SimpleModel{.ranks = 3, .chunks = 2, .slots = 1});
  EXPECT_EQ(verdict.wrong, "") << verdict.trace;
  EXPECT_GT(verdict.states, 500u);
  RecordProperty("states", int(verdict.states));
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

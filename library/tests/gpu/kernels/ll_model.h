// A model of the LL protocol: packets tagged with the epoch of their call, in sets that take turns.
//
//   rank 0, call k                                rank 1's scratch
//     send to all peers  ---- {k, epoch} ------>  [set = epoch & 1][source 0][packet]
//     wait for every peer's packets of this epoch     read when the tag is this call's epoch
//     next call                                       a set is filled again two calls later
//
// A call carries one packet or two to each peer, by a schedule that all ranks share and the search chooses. Stores are
// under way for as long as they like; only stores to one address keep their order. A packet is one store: the hardware
// writes its halves at once, and each half has a tag.
//
// Epochs run from `first_epoch` to `last_epoch` and start again. At the end of the last two, their sets are cleared by
// the rank that owns them, so that a packet that no later, shorter call wrote over cannot be taken for a new one.
#pragma once

#include <array>
#include <cstdint>

#include "library/tests/gpu/kernels/search.h"

namespace busbw::gpu::model {

struct LlModel {
  static constexpr int most_ranks = 3;
  static constexpr int most_packets = 2;
  static constexpr int most_under_way = 3;
  static constexpr std::uint8_t none = 0;  // packets are call number + 1

  int ranks = 2;
  int calls = 5;
  int packets = 1;  // of a long call; all calls are long if 1
  int sets = 2;
  int first_epoch = 2;
  int last_epoch = 127;
  bool clears_before_wrap = true;
  bool only_root_sends = false;  // a broadcast without answers

  struct Address {
    std::uint8_t held = none;
    std::array<std::uint8_t, most_under_way> under_way{};
  };
  struct State {
    std::array<std::uint8_t, most_ranks> call{};      // of each rank
    std::array<std::uint8_t, most_ranks> sent{};      // 1: in this call
    std::array<std::uint8_t, most_ranks> received{};  // bit per source and packet
    std::uint8_t chosen = 0;                          // calls whose length is in `longs`
    std::uint16_t longs = 0;                          // bit per call
    Address slots[most_ranks][2][most_ranks][most_packets]{};
  };

  State start() const { return {}; }
  bool done(const State& s) const {
    for (int r = 0; r < ranks; ++r) {
      if (s.call[r] < calls) return false;
    }
    return true;
  }

  int epoch(int call) const { return first_epoch + call % (last_epoch - first_epoch + 1); }
  int set(int call) const { return epoch(call) % sets; }
  int length(const State& s, int call) const { return packets == 1 || (s.longs >> call & 1) ? packets : 1; }
  bool sends(int rank) const { return !only_root_sends || rank == 0; }

  // What `rank` waits for in its call.
  std::uint8_t awaited(const State& s, int rank) const {
    std::uint8_t bits = 0;
    for (int source = 0; source < ranks; ++source) {
      if (source == rank || !sends(source)) continue;
      for (int p = 0; p < length(s, s.call[rank]); ++p) bits |= std::uint8_t(1 << (source * most_packets + p));
    }
    return bits;
  }

  // Not yet read by `rank`: of a later call, or of this one and still awaited.
  bool unread(const State& s, int rank, int source, int packet, std::uint8_t held) const {
    if (held == none) return false;
    const int call = held - 1;
    return call > s.call[rank] || (call == s.call[rank] && !(s.received[rank] >> (source * most_packets + packet) & 1));
  }

  template <typename Emit>
  void each_step(const State& s, Emit emit) const {
    for (int r = 0; r < ranks; ++r) {
      deliveries(s, r, emit);
      if (s.call[r] >= calls) continue;
      if (s.call[r] == s.chosen) {
        choose_length(s, r, emit);
      } else if (!s.sent[r]) {
        send(s, r, emit);
      } else {
        receive_or_finish(s, r, emit);
      }
    }
  }

 private:
  template <typename Emit>
  void choose_length(const State& s, int r, Emit emit) const {
    for (int is_long = 0; is_long < (packets == 1 ? 1 : 2); ++is_long) {
      State next = s;
      if (is_long) next.longs |= std::uint16_t(1u << s.chosen);
      next.chosen++;
      emit(next, Event{is_long ? "a long call" : "a call", r, r, s.chosen}, nullptr);
    }
  }

  template <typename Emit>
  void send(const State& s, int r, Emit emit) const {
    State next = s;
    next.sent[r] = 1;
    for (int peer = 0; peer < ranks && sends(r); ++peer) {
      if (peer == r) continue;
      for (int p = 0; p < length(s, s.call[r]); ++p) {
        auto& line = next.slots[peer][set(s.call[r])][r][p].under_way;
        std::size_t free = 0;
        while (free < line.size() && line[free] != none) ++free;
        if (free == line.size()) return;  // the network is full
        line[free] = std::uint8_t(s.call[r] + 1);
      }
    }
    emit(next, Event{"sends call", r, r, s.call[r]}, nullptr);
  }

  template <typename Emit>
  void deliveries(const State& s, int r, Emit emit) const {
    for (int set = 0; set < sets; ++set) {
      for (int source = 0; source < ranks; ++source) {
        for (int p = 0; p < packets; ++p) {
          const Address& slot = s.slots[r][set][source][p];
          if (slot.under_way[0] == none) continue;
          State next = s;
          Address& to = next.slots[r][set][source][p];
          to = {slot.under_way[0], {slot.under_way[1], slot.under_way[2], none}};
          emit(next, Event{"gets call", r, source, to.held - 1},
               unread(s, r, source, p, slot.held) ? "a packet was overwritten before it was read" : nullptr);
        }
      }
    }
  }

  template <typename Emit>
  void receive_or_finish(const State& s, int r, Emit emit) const {
    const int call = s.call[r];
    for (int source = 0; source < ranks; ++source) {
      for (int p = 0; p < packets; ++p) {
        const std::uint8_t bit = std::uint8_t(1 << (source * most_packets + p));
        const std::uint8_t held = s.slots[r][set(call)][source][p].held;
        if (!(awaited(s, r) & bit & ~s.received[r]) || held == none || epoch(held - 1) != epoch(call)) continue;
        State next = s;
        next.received[r] |= bit;
        emit(next, Event{"reads call", r, source, held - 1},
             held - 1 == call ? nullptr : "a packet of an earlier round of epochs was taken for a new one");
      }
    }
    if (s.received[r] != awaited(s, r)) return;
    State next = s;
    next.sent[r] = next.received[r] = 0;
    next.call[r]++;
    if (clears_before_wrap && epoch(call) >= last_epoch - 1) clear(next, r, set(call));
    emit(next, Event{"ends call", r, r, call}, nullptr);
  }

  void clear(State& s, int r, int set) const {
    for (auto& source : s.slots[r][set]) {
      for (Address& slot : source) slot.held = none;
    }
  }
};

}  // namespace busbw::gpu::model

// The words between staged copies as a small model, which is searched in every interleaving.
#pragma once

#include <string>

#include "library/gpu/run/staged.h"
#include "library/tests/gpu/kernels/search.h"

namespace busbw::gpu::test {

// Two ranks' streams as lists of waits and sets on one lane, for a few calls. What is guarded is modelled too: a slot
// and an offer hold the number of the call that filled them, and whoever takes one must find its own call there.
struct WordsModel {
  static constexpr int ranks = 2;
  static constexpr int most_words = 2 * staged_words;  // of each rank, by the other one, in one lane
  bool waits_for_vacant = true;
  bool waits_for_fetched = true;
  bool sees_fetched = true;  // where peers read from the rank's own buffer
  // An all-to-all stands for a call in which they do.
  std::array<Collective, 3> calls_made{Collective::all_reduce, Collective::all_reduce, Collective::all_reduce};
  static constexpr int calls = 3;

  struct State {
    std::array<std::uint8_t, ranks * 3> at{};   // the next step of each stream: 8 a call
    std::array<std::uint8_t, ranks> words{};    // bit per StagedWord, as the owner sees them
    std::array<std::uint8_t, ranks> pushed{};   // the call whose data lies in the slot
    std::array<std::uint8_t, ranks> offered{};  // and in the offer
  };

  static constexpr std::uint8_t bit(StagedWord word) { return std::uint8_t(1u << int(word)); }
  State start() const {
    State s;
    for (auto& words : s.words) words = bit(StagedWord::vacant) | bit(StagedWord::fetched);
    return s;
  }
  static constexpr std::array<int, 3> steps_of{3, 5, 3};  // pushing, adding, fetching
  bool done(const State& s) const {
    for (int rank = 0; rank < ranks; ++rank)
      for (int stream = 0; stream < 3; ++stream)
        if (s.at[std::size_t(rank * 3 + stream)] < calls * steps_of[std::size_t(stream)]) return false;
    return true;
  }

  template <typename Emit>
  void each_step(const State& s, Emit emit) const {
    for (int rank = 0; rank < ranks; ++rank)
      for (int stream = 0; stream < 3; ++stream) step(s, rank, stream, emit);
  }

 private:
  // A call of a rank begins when the one before has ended in all three streams.
  bool may_begin(const State& s, int rank, int call) const {
    for (int stream = 0; stream < 3; ++stream)
      if (s.at[std::size_t(rank * 3 + stream)] < call * steps_of[std::size_t(stream)]) return false;
    return true;
  }

  template <typename Emit>
  void step(const State& s, int rank, int stream, Emit emit) const {
    const int at = s.at[std::size_t(rank * 3 + stream)];
    const int call = at / steps_of[std::size_t(stream)];
    const int number = at % steps_of[std::size_t(stream)];
    if (call >= calls || !may_begin(s, rank, call)) return;
    const auto me = std::size_t(rank);
    const auto other = std::size_t(1 - rank);
    State next = s;
    ++next.at[std::size_t(rank * 3 + stream)];
    const char* wrong = nullptr;
    const auto wait = [&](StagedWord word, bool really) {
      if (really && !(s.words[me] & bit(word))) return false;
      next.words[me] &= std::uint8_t(~bit(word));
      return true;
    };
    const auto set = [&](StagedWord word) {
      if (s.words[other] & bit(word)) wrong = "a word is told again that nobody has seen";
      next.words[other] |= bit(word);
    };
    const auto now = std::uint8_t(call + 1);
    // A reduce-scatter offers nothing, an all-gather pushes nothing.
    const Collective made = calls_made[std::size_t(call)];
    const int step_number = stream * 10 + number;
    const bool pushes = step_number <= 10 || step_number == 13;
    const bool offers = step_number == 11 || step_number >= 14;
    const bool left_out = (made == Collective::all_gather && pushes) || (made == Collective::reduce_scatter && offers);
    if (made == Collective::all_to_all) {
      if (step_number == 10 && !wait(StagedWord::fetched, waits_for_fetched)) return;
      if (step_number == 11) set(StagedWord::ready);
      if (step_number == 12 && !wait(StagedWord::ready, true)) return;
      if (step_number == 13) {
        const int of_other = s.at[other * 3 + 1];
        if (of_other / 5 != call || of_other % 5 < 2) wrong = "the peer's buffer is not that of this call";
        set(StagedWord::fetched);
      }
      if (step_number == 14 && sees_fetched && !(s.words[me] & bit(StagedWord::fetched))) return;
      return emit(next, model::Event{"does step of a lent call", rank, stream, step_number}, wrong);
    }
    const int what = left_out ? -1 : step_number;
    if (what == 0 && !wait(StagedWord::vacant, waits_for_vacant)) return;
    if (what == 1) next.pushed[other] = now;
    if (what == 2) set(StagedWord::arrived);
    if (what == 10 && !wait(StagedWord::arrived, true)) return;
    if (what == 11 && !wait(StagedWord::fetched, waits_for_fetched)) return;
    if (what == 12) {
      if (made != Collective::all_gather && s.pushed[me] != now) wrong = "what was pushed is of another call";
      if (made != Collective::reduce_scatter) next.offered[me] = now;
    }
    if (what == 13) set(StagedWord::vacant);
    if (what == 14) set(StagedWord::ready);
    if (what == 20 && !wait(StagedWord::ready, true)) return;
    if (what == 21 && s.offered[other] != now) wrong = "what is offered is of another call";
    if (what == 22) set(StagedWord::fetched);
    emit(next, model::Event{"does step", rank, stream, what}, wrong);
  }
};

}  // namespace busbw::gpu::test

// Trials of what the ranks have voted for: some steps of the program with NCCL and some with our way, in turn, timed on
// the GPU. Here is what all ranks go by; run/own_steps.h is one rank's part.
//
//     block   0     1      2     3      4      5     6      7     8 ...
//     way     NCCL  NCCL   ours  ours   ours   NCCL  NCCL   NCCL  as the ranks find
//                   timed        timed  timed        timed  votes
//
// Only blocks behind one of the same way are timed, as calls begin and end behind such calls then. Those of both ways
// are in the middle of the same blocks, so that GPUs that become slower as they get warm favour none.
//
// A block is a number of calls that fills whole steps of the program. Which it is, and at which call a trial begins, is
// written down by the first rank that comes to a start point; it holds for all, as with votes (ballots.h). There is
// another trial where the blocks turn out to be no whole steps, and where the program goes on to other steps.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "library/gpu/kernels/layout.h"

namespace busbw::gpu {

class Trial {
 public:
  enum class Way : std::uint8_t { as_voted, nccl, ours };
  static constexpr std::array<Way, 8> ways{Way::nccl, Way::nccl, Way::ours, Way::ours,
                                           Way::ours, Way::nccl, Way::nccl, Way::nccl};
  static constexpr std::array<std::size_t, 4> timed{1, 3, 4, 6};
  static constexpr int blocks = int(ways.size());

  // A trial may begin before calls 64, 128 ... 4096, then 5120, 6144 ... 131072.
  static constexpr int start_points = 64 + 124;
  static constexpr std::uint64_t start_point(int i) {
    return i < 64 ? 64 * std::uint64_t(i + 1) : 1024 * std::uint64_t(i - 59);
  }
  // Where none has begun by then, the way that nobody has tried is not taken until one does.
  static constexpr std::uint64_t patience = 4096;

  // In blocks behind the beginning: votes are counted here, again as long as one is missing.
  static constexpr std::array<std::uint32_t, 5> verdict_points{8, 9, 12, 20, 40};
  // In blocks behind the beginning: from here on there may be another trial.
  static constexpr std::uint32_t next_from = 13;
  static constexpr int trials = 16;

  // Of memory that all ranks have, all zero at first.
  struct Words {
    std::atomic<std::uint32_t> starts[start_points];  // calls of a block; no_start where none begins here
    std::atomic<std::uint32_t> votes[trials][max_ranks];
    std::atomic<std::uint32_t> verdicts[trials][verdict_points.size()];
  };

  Trial(Words& words, int rank, int ranks) : words_(words), rank_(rank), ranks_(ranks) {}
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  // Calls of a block of a trial that is to begin now; 0 where none can. `again`: a rank wants the last one made again.
  using Proposal = std::function<std::uint32_t(bool again)>;
  // Before this rank decides on a call: settles each start point up to it, before any rank decides on a call behind.
  void come_to(std::uint64_t call, const Proposal& proposal);

  Way way(std::uint64_t call) const;
  // The last trial that has begun by `call`. Its number is -1 where none has.
  struct Plan {
    int trial = -1;
    std::uint64_t first = 0;  // call
    std::uint32_t block = 0;  // calls
  };
  Plan plan(std::uint64_t call) const;

  // What this rank has found, once in a trial: whether our way is the faster one, or that the trial says nothing.
  enum class Vote : std::uint32_t { none, nccl, ours, again };
  void vote(int trial, Vote vote) { words_.votes[trial][rank_].store(std::uint32_t(vote)); }
  // What holds at this call, which is behind the blocks; nccl as long as a vote is missing.
  Vote verdict(const Plan& plan, std::uint64_t call) const;

 private:
  static constexpr std::uint32_t no_start = 1;
  std::uint32_t proposed_at(std::uint64_t call, const Proposal& proposal) const;
  Vote counted(int trial, std::size_t point) const;

  Words& words_;
  int rank_;
  int ranks_;
  int next_point_ = 0;  // that this rank comes to
  // Where plan() goes on: the last start point at which a trial has begun, and that trial; none: both 0.
  mutable std::atomic<std::uint32_t> known_{0};
};

}  // namespace busbw::gpu

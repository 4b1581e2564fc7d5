// What the timed blocks of trials say about two ways: which is faster, and whether that is sure.
#pragma once

#include <array>
#include <vector>

#include "library/gpu/join/trial.h"

namespace busbw::gpu {

// The milliseconds of a trial's blocks, the last aside.
using BlockTimes = std::array<double, Trial::blocks - 1>;

// Grows by a trial at a time, as long as it is not sure. Blocks of all trials are of the same steps.
class Comparison {
 public:
  static constexpr int most_trials = 4;

  void add(const BlockTimes& blocks);
  void forget() { nccl_.clear(), ours_.clear(); }

  // As of the Mann-Whitney test: so many of the pairs of a block of NCCL's and one of ours are on one side. Always
  // after `most_trials`, as no longer trial is worth its steps.
  bool sure() const;
  // Shorter by more than a doubt, as the median of all pairs says (Hodges and Lehmann's estimate of a shift).
  bool ours_are_faster() const;
  // Medians, in ms.
  double nccl() const;
  double ours() const;

 private:
  std::vector<double> nccl_, ours_;  // as many of each
};

}  // namespace busbw::gpu

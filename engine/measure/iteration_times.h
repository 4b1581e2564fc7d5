// The times of single iterations that -I asks for, of the slowest rank of each, over one batch or several.
#pragma once

#include <vector>

#include "engine/measure/batch.h"

namespace busbw {

class IterationTimes {
 public:
  // All threads call it alike. Takes the iterations of one batch until there are -n of them: under --precision a case
  // has thousands, and each is exchanged between all ranks.
  void add(const Timing& timing, const Batch& batch);
  // Leaves `result` as it is where none were taken.
  void summarize(const Plan& plan, CaseResult& result);

 private:
  std::vector<std::vector<double>> by_process_;
  std::vector<double> maximum_;
};

}  // namespace busbw

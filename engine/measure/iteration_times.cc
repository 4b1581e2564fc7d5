// Exchanges and keeps the times of iterations.
#include "engine/measure/iteration_times.h"

#include <algorithm>
#include <utility>

#include "engine/measure/statistics.h"

namespace busbw {

void IterationTimes::add(const Timing& timing, const Batch& batch) {
  const auto threads = static_cast<std::size_t>(timing.plan.threads);
  const auto wanted = static_cast<std::size_t>(timing.plan.iterations);
  for (const double mine : batch.iterations) {
    if (maximum_.size() >= wanted) return;
    const std::vector<double> all = timing.barrier.all_gather(mine);
    by_process_.resize(all.size() / threads);
    for (std::size_t process = 0; process < by_process_.size(); ++process) {
      const auto first = all.begin() + static_cast<std::ptrdiff_t>(process * threads);
      by_process_[process].push_back(*std::max_element(first, first + static_cast<std::ptrdiff_t>(threads)));
    }
    maximum_.push_back(*std::max_element(all.begin(), all.end()));
  }
}

void IterationTimes::summarize(const Plan& plan, CaseResult& result) {
  if (maximum_.empty()) return;
  result.per_iteration = summarize_iterations(std::move(maximum_), plan.per_iteration_skip);
  if (by_process_.size() > 1) result.per_iteration->per_process_maximum = std::move(by_process_);
}

}  // namespace busbw

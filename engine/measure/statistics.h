// Statistics that the engine needs while it measures: the interval of a median, the summary of iterations.
#pragma once

#include <vector>

#include "engine/core/plan.h"
#include "engine/core/result.h"

namespace busbw {

double median_of(std::vector<double> samples);

// Distribution-free interval of the median from order statistics: with X_(k) the k-th smallest of n samples,
// P(X_(k) <= median <= X_(n+1-k)) = 1 - 2 P(Binomial(n, 1/2) < k). Picks the largest k that keeps `level`.
// Fewer samples than any k allows give the whole range with reached = false.
Interval median_interval(std::vector<double> samples, double level);

// The same for samples that come one by one and are looked at after each: they are kept sorted, so that a look costs
// little beside a batch of short calls.
class GrowingSamples {
 public:
  void add(double sample);
  int count() const { return static_cast<int>(sorted_.size()); }
  Interval median_interval(double level) const;

 private:
  std::vector<double> sorted_;
};

// The smallest number of samples with which an interval of that level exists (6 for 95 %).
int fewest_samples(double level);

// min, max, mean, percentiles of the iterations behind the first `skipped`, as nccl-tests -I defines them: p50 is
// element floor(n/2) of the sorted list, p95 and p99 the nearest rank, the standard deviation that of a population.
IterationStatistics summarize_iterations(std::vector<double> times_us, int skipped);

// Combines elapsed times of all threads as -a says.
double combine(const std::vector<double>& by_thread, Average average);

}  // namespace busbw

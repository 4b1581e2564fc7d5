// One batch of -n iterations per case, or as many shorter ones as take about as long.
#include "engine/measure/nccl_tests_way.h"

#include <algorithm>

#include "engine/measure/statistics.h"

namespace busbw {
namespace {

// -I: the slowest rank of each iteration, and of each process where there are several.
void gather_iterations(const Timing& timing, const Batch& batch, CaseResult& result) {
  const auto threads = static_cast<std::size_t>(timing.plan.threads);
  std::vector<std::vector<double>> by_process;
  std::vector<double> maximum(batch.iterations.size(), 0.0);
  for (std::size_t i = 0; i < batch.iterations.size(); ++i) {
    const std::vector<double> all = timing.barrier.all_gather(batch.iterations[i]);
    by_process.resize(all.size() / threads, std::vector<double>(batch.iterations.size(), 0.0));
    for (std::size_t t = 0; t < all.size(); ++t) {
      double& slot = by_process[t / threads][i];
      slot = std::max(slot, all[t]);
      maximum[i] = std::max(maximum[i], all[t]);
    }
  }
  result.per_iteration = summarize_iterations(maximum, timing.plan.per_iteration_skip);
  if (by_process.size() > 1) result.per_iteration->per_process_maximum = std::move(by_process);
}

}  // namespace

void sample_as_nccl_tests(const Timing& timing, double seconds_per_call,
                          const std::function<void(int number)>& between_batches, CaseResult& result) {
  const BatchShape shape = default_shape(timing.plan, seconds_per_call);
  Graphs graphs;
  if (timing.plan.graph_launches > 0) graphs = capture(timing, shape.iterations, timing.plan.aggregated);
  result.iterations = shape.iterations;
  double sum = 0;
  for (int number = 0; number < timing.plan.batches; ++number) {
    between_batches(number);
    const Batch batch = graphs.empty() ? run_batch(timing, shape.iterations)
                                       : run_graph_batch(timing, graphs, shape.iterations, shape.launches);
    sum += add_batch(timing, batch, result);
    if (number == 0) result.cpu_time_us = batch.launch * 1e6;
    if (timing.plan.per_iteration && number == 0) gather_iterations(timing, batch, result);
  }
  result.time_us = sum / timing.plan.batches * 1e6;
}

void set_bandwidths(CaseResult& result, double bytes, double bus_factor) {
  result.algbw = gigabytes_per_second(bytes, Seconds(result.time_us * 1e-6));
  result.busbw = result.algbw * bus_factor;
}

}  // namespace busbw

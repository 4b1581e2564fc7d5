// One batch of -n iterations per case, and the samples that can be had beside or within it.
#include "engine/measure/nccl_tests_way.h"

#include "engine/measure/iteration_times.h"
#include "engine/measure/statistics.h"

namespace busbw {
namespace {

// Each thread's time over the batches that are nccl-tests' one, in microseconds per call, then combined as -a says.
double time_of_case(const Cut& cut, const CaseResult& result, Average average) {
  const std::size_t counted = cut.shared ? cut.parts.size() : 1;
  double calls = 0;
  std::vector<double> by_thread(result.batches_us.size(), 0.0);
  for (std::size_t b = 0; b < counted; ++b) {
    calls += cut.parts[b];
    for (std::size_t t = 0; t < by_thread.size(); ++t) by_thread[t] += result.batches_us[t][b] * cut.parts[b];
  }
  return combine(by_thread, average) / calls;
}

}  // namespace

void sample_as_nccl_tests(const Timing& timing, const Cut& cut, const BeforeBatch& before_batch, CaseResult& result) {
  const Plan& plan = timing.plan;
  Graphs graphs;
  if (plan.graph_launches > 0) graphs = capture(timing, plan.iterations, plan.aggregated);
  result.iterations = plan.iterations;
  double launch = 0;
  int done = 0;
  IterationTimes iterations;
  for (std::size_t b = 0; b < cut.parts.size(); ++b) {
    const int part = cut.parts[b];
    before_batch(static_cast<int>(b), done);
    const Batch batch =
        graphs.empty() ? run_batch(timing, part) : run_graph_batch(timing, graphs, plan.iterations, part);
    add_batch(timing, batch, result);
    // The launch time of graphs is that of all launches by the calls of one: it adds up as it is.
    if (cut.shared || b == 0) launch += batch.launch * (graphs.empty() ? part : 1);
    iterations.add(timing, batch);
    done += part * (graphs.empty() ? 1 : plan.iterations) * plan.aggregated;
  }
  result.cpu_time_us = launch / (graphs.empty() ? plan.iterations : 1) * 1e6;
  result.time_us = time_of_case(cut, result, plan.average);
  iterations.summarize(plan, result);
}

void set_bandwidths(CaseResult& result, double bytes, double bus_factor) {
  result.algbw = gigabytes_per_second(bytes, Seconds(result.time_us * 1e-6));
  result.busbw = result.algbw * bus_factor;
}

}  // namespace busbw

// The stopping rule of --precision, which all ranks come to alike from figures that all have.
#include "engine/measure/precise_way.h"

#include <algorithm>
#include <cmath>

namespace busbw {
namespace {

constexpr double level = 0.95;

// Seconds that the batch took.
double sample_once(const Timing& timing, Sampling& sampling, const BatchShape& shape, int number) {
  // As in nccl-tests, whose threads come to the barrier from the end of an operation. A long call is not worth it.
  if (shape.iterations >= timing.plan.iterations && sampling.graphs.empty()) {
    start_call(timing, 0);
    timing.work.complete("the first operation");
  }
  const Batch batch = sampling.graphs.empty()
                          ? run_batch(timing, shape.iterations)
                          : run_graph_batch(timing, sampling.graphs, shape.iterations, shape.launches);
  if (number == 0) sampling.result.cpu_time_us = batch.launch * 1e6;
  const double seconds_per_call = add_batch(timing, batch, sampling.result);
  sampling.iterations.add(timing, batch);
  sampling.combined.add(seconds_per_call);
  return seconds_per_call * shape.iterations * shape.launches * timing.plan.aggregated;
}

bool is_time_up(const Timing& timing, Seconds begin) {
  // Clocks differ between ranks: the slowest decides for all.
  const std::vector<double> spent = timing.barrier.all_gather((timing.clock.now() - begin).count());
  return *std::max_element(spent.begin(), spent.end()) > timing.plan.max_seconds;
}

bool look(const Plan& plan, Sampling& sampling) {
  Interval interval = sampling.combined.median_interval(level);
  interval.reached = interval.high - interval.low <= *plan.precision * interval.median;
  sampling.result.interval = interval;
  return interval.reached;
}

void to_microseconds(Sampling& sampling) {
  Interval& interval = *sampling.result.interval;
  for (double* value : {&interval.median, &interval.low, &interval.high}) *value *= 1e6;
  sampling.result.time_us = interval.median;
}

}  // namespace

std::size_t new_places(int calls, Bytes previous, Bytes bytes) {
  if (previous.count >= bytes.count) return static_cast<std::size_t>(calls);
  const double known = static_cast<double>(previous.count) / static_cast<double>(bytes.count);
  return static_cast<std::size_t>(std::max(1.0, std::round(calls * (1 - known))));
}

double estimate_call(const Timing& timing, Bytes bytes) {
  // One hiccup must not cut the batches of a short call; a long call is not worth a second one. On a busy machine a
  // hiccup lasts for longer than a long call: what moves little is called twice all the same.
  constexpr double long_call = 1e-3;
  constexpr std::size_t little = 1 << 20;
  const double first = time_call(timing);
  return first < long_call || bytes.count <= little ? std::min(first, time_call(timing)) : first;
}

void sample_until_precise(const Timing& timing, const BatchShape& shape, bool moves_nothing, Sampling& out_of_place,
                          Sampling& in_place, const std::function<void(const Sampling&, int number)>& place) {
  constexpr int most_batches = 100'000;
  const int fewest = fewest_samples(level);
  const Seconds begin = timing.clock.now();
  // Asking all ranks for the time takes as long as a short batch. What the batches took is known to all alike.
  const double between_looks = std::min(0.02, timing.plan.max_seconds / 10);
  double unseen = 0;
  bool done = false;
  for (int b = 0; b < most_batches && !done; ++b) {
    for (Sampling* sampling : {&out_of_place, &in_place}) {
      place(*sampling, b);
      unseen += sample_once(timing, *sampling, shape, b);
    }
    if (b + 1 < fewest) continue;
    // Both are looked at, whatever the first one says.
    const bool first_done = look(timing.plan, out_of_place);
    const bool second_done = look(timing.plan, in_place);
    done = (first_done && second_done) || moves_nothing;
    if (done || unseen < between_looks) continue;
    unseen = 0;
    done = is_time_up(timing, begin);
  }
  for (Sampling* sampling : {&out_of_place, &in_place}) {
    to_microseconds(*sampling);
    sampling->iterations.summarize(timing.plan, sampling->result);
  }
}

}  // namespace busbw

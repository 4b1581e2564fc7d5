// The time that a batch should last, cut into iterations and launches.
#include "engine/measure/batch_shape.h"

#include <algorithm>
#include <cmath>

namespace busbw {
namespace {

// Ten microseconds are then one percent.
constexpr double shortest_batch_seconds = 1e-3;
// -G repeats its graph so that even the launch of a graph is shared by many calls.
constexpr double shortest_graph_batch_seconds = 4e-3;

int calls_for(double seconds, double seconds_per_call, double most) {
  const double wanted = seconds_per_call > 0 ? std::ceil(seconds / seconds_per_call) : most;
  return static_cast<int>(std::clamp(wanted, 1.0, most));
}

}  // namespace

BatchShape batch_shape(const Plan& plan, double seconds_per_call) {
  const double seconds_per_iteration = seconds_per_call * plan.aggregated;
  if (plan.graph_launches == 0)
    return {.iterations = calls_for(shortest_batch_seconds, seconds_per_iteration, plan.iterations)};
  const int calls = calls_for(shortest_graph_batch_seconds, seconds_per_iteration,
                              static_cast<double>(plan.iterations) * plan.graph_launches);
  const int iterations = std::min(calls, plan.iterations);
  return {.iterations = iterations, .launches = (calls + iterations - 1) / iterations};
}

BatchShape default_shape(const Plan& plan, double seconds_per_call) {
  if (plan.batches <= 1) return {.iterations = plan.iterations, .launches = std::max(1, plan.graph_launches)};
  const int share = std::max(1, plan.iterations / plan.batches);
  const int enough = calls_for(shortest_batch_seconds, seconds_per_call * plan.aggregated, plan.iterations);
  return {.iterations = std::max(share, enough), .launches = std::max(1, plan.graph_launches / plan.batches)};
}

}  // namespace busbw

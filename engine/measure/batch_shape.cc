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
// Launching and waiting take some tens of microseconds; so often within the time that is reported, they must weigh less
// than in a sample of their own.
constexpr double shortest_share_seconds = 5e-3;

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

Cut cut_case(const Plan& plan, double seconds_per_call) {
  const bool graph = plan.graph_launches > 0;
  const int units = graph ? plan.graph_launches : plan.iterations;
  if (plan.batches <= 1 || plan.per_iteration) return {.parts = {units}};
  const double unit_seconds = seconds_per_call * plan.aggregated * (graph ? plan.iterations : 1);
  const int batches = std::min(plan.batches, units);
  if (batches > 1 && units * unit_seconds >= batches * shortest_share_seconds) {
    Cut cut{.shared = true};
    for (int b = 0; b < batches; ++b) cut.parts.push_back(units / batches + (b < units % batches ? 1 : 0));
    return cut;
  }
  const double shortest = graph ? shortest_graph_batch_seconds : shortest_batch_seconds;
  const int calls = calls_for(shortest, unit_seconds, units);
  Cut cut{.parts = {units}};
  const double most_seconds = 2 * shortest * (plan.batches - 1);
  for (int b = 1; b < plan.batches && b * calls * unit_seconds <= most_seconds; ++b) cut.parts.push_back(calls);
  return cut;
}

}  // namespace busbw

// One batch of calls, timed as nccl-tests times them: from a common start to the completion of the last call.
#pragma once

#include <vector>

#include "engine/core/result.h"
#include "engine/measure/timing.h"

namespace busbw {

struct Batch {
  double elapsed = 0;              // seconds per call, on this thread
  double launch = 0;               // seconds per call until the last one was enqueued
  std::vector<double> iterations;  // microseconds per call, the slowest of this thread's ranks; with -I
};

// One call, and the wait after it that -z asks for.
void start_call(const Timing& timing, int call);

// `iterations` times -m calls. With -z 3 the waits between iterations are left out of the time.
Batch run_batch(const Timing& timing, int iterations);

// The same recorded as graphs, for run_graph_batch. Calls are grouped by `aggregated`.
Graphs capture(const Timing& timing, int iterations, int aggregated);

// Launches graphs of `iterations` times -m calls `launches` times.
Batch run_graph_batch(const Timing& timing, const Graphs& graphs, int iterations, int launches);

// Seconds that one call takes by itself, the mean over all threads: an estimate.
double time_call(const Timing& timing);

// Keeps what every thread measured and returns seconds per call of all of them together, as -a says.
double add_batch(const Timing& timing, const Batch& batch, CaseResult& result);

}  // namespace busbw

// The case loop of one thread: types, operations, roots, sizes, placements.
#pragma once

#include <functional>

#include "engine/app/job.h"
#include "engine/app/reporter.h"
#include "engine/measure/bench.h"
#include "engine/measure/context.h"

namespace busbw {

// Runs every case of the job's plan. All threads of all processes run it at the same time.
// `context` reads the GPUs between cases; null on all threads but the first, and where there are none. `before_row` is
// called by every thread before it warms up and before each row, and told whether a cycle begins; false ends the sweep.
// Where engines take turns a cycle is over everything, types and operations too; else over the sizes, as in nccl-tests.
void sweep(const Job& job, Bench& bench, Reporter& reporter, ContextReader* context,
           const std::function<bool(bool)>& before_row);

}  // namespace busbw

// The case loop of one thread: types, operations, roots, sizes, placements.
#pragma once

#include "engine/app/job.h"
#include "engine/app/reporter.h"
#include "engine/measure/bench.h"

namespace busbw {

// Runs every case of the job's plan. All threads of all processes run it at the same time.
void sweep(const Job& job, Bench& bench, Reporter& reporter);

}  // namespace busbw

// One run from plan to exit code.
#pragma once

#include "engine/core/plan.h"

namespace busbw {

// Joins the job, measures and reports. Returns the exit code; prints the sentence of a failure itself.
int run(Plan plan);

}  // namespace busbw

// A case measured as nccl-tests measures it, in one batch or in several that can be compared with an interval.
#pragma once

#include <functional>

#include "engine/measure/batch.h"
#include "engine/measure/batch_shape.h"

namespace busbw {

// Before batch `number` of a case, when so many of its calls have been made.
using BeforeBatch = std::function<void(int number, int calls)>;

// Fills time, launch time, iterations, batches and, with -I, the distribution. The first call has completed before.
// The time is that of -n iterations, as nccl-tests measures it, however the case is cut; `cut` is the same on all
// ranks.
void sample_as_nccl_tests(const Timing& timing, const Cut& cut, const BeforeBatch& before_batch, CaseResult& result);

// algbw and busbw from the time: `bytes` are those that algbw counts, `bus_factor` is the collective's for its ranks
// (doc/PERFORMANCE.md of nccl-tests).
void set_bandwidths(CaseResult& result, double bytes, double bus_factor);

}  // namespace busbw

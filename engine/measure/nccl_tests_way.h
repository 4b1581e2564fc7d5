// A case measured as nccl-tests measures it, in one batch or in several that can be compared with an interval.
#pragma once

#include <functional>

#include "engine/measure/batch.h"
#include "engine/measure/batch_shape.h"

namespace busbw {

// Fills time, launch time, iterations, batches and, with -I, the distribution. The first call has completed before.
// With Plan::batches > 1 the time is the mean of the batches; `seconds_per_call` then says about how long a call takes,
// on every rank the same, and `between_batches(number)` is called before each batch.
void sample_as_nccl_tests(const Timing& timing, double seconds_per_call,
                          const std::function<void(int number)>& between_batches, CaseResult& result);

// algbw and busbw from the time: `bytes` are those that algbw counts, `bus_factor` is the collective's for its ranks
// (doc/PERFORMANCE.md of nccl-tests).
void set_bandwidths(CaseResult& result, double bytes, double bus_factor);

}  // namespace busbw

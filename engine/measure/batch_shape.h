// How many calls a batch has, under --precision and where several batches replace nccl-tests' one.
#pragma once

#include "engine/core/plan.h"

namespace busbw {

struct BatchShape {
  int iterations = 1;
  int launches = 1;  // of a CUDA graph of as many iterations
  friend bool operator==(const BatchShape&, const BatchShape&) = default;
};

// A batch's mean must be what the mean of -n iterations would be. Launching the first call and waiting for the last
// cost some microseconds, which that mean shares among its iterations. So short calls come in batches of -n; a batch of
// fewer calls is long enough that those microseconds weigh less than a percent. `seconds_per_call` may be an estimate.
BatchShape batch_shape(const Plan& plan, double seconds_per_call);

// Plan::batches batches that take together about as long as nccl-tests' one of -n iterations: short calls, whose batch
// is over in a millisecond, come in batches of -n; of longer ones each batch has its share. One batch is nccl-tests'
// own.
BatchShape default_shape(const Plan& plan, double seconds_per_call);

}  // namespace busbw

// How many calls a batch has, under --precision and where nccl-tests has one batch.
#pragma once

#include <vector>

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

// A case of nccl-tests' -n iterations as several batches, so that it can be compared with an interval.
struct Cut {
  std::vector<int> parts;  // iterations of each batch; with -G launches of the graph
  // Whether the parts together are nccl-tests' one batch. Else the first part is, and the others come after it.
  bool shared = false;
};

// Plan::batches batches without taking noticeably longer, and without changing what is reported. Where each can have
// its share of the iterations and still last long enough that launching and waiting once more weigh nothing, they share
// them. Else the first is nccl-tests' own, whole, and the others are as short as batches may be; those that would cost
// time are left out. One batch, and -I, which times each iteration: nccl-tests' own alone.
Cut cut_case(const Plan& plan, double seconds_per_call);

}  // namespace busbw

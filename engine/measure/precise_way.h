// --precision: both placements of a size, batch by batch in turn, until the intervals of their medians are narrow.
#pragma once

#include <functional>

#include "engine/measure/batch.h"
#include "engine/measure/batch_shape.h"
#include "engine/measure/iteration_times.h"
#include "engine/measure/statistics.h"

namespace busbw {

// One placement under --precision.
struct Sampling {
  bool in_place = false;
  std::size_t places_between = 1;  // the first of a batch and that of the next
  CaseResult result{};
  GrowingSamples combined{};  // seconds per call, by batch
  Graphs graphs{};
  IterationTimes iterations{};  // of -I, the first -n of all batches
};

// How far a batch of `calls` calls starts behind the one before it. In nccl-tests, which makes one batch of each size,
// the first of the places that it rotates through have just been touched by the batch of the size before, and a cache
// may still hold them; the others have not. A batch that came back to the same places would find all of them in the
// caches, and one that took new ones none.
std::size_t new_places(int calls, Bytes previous, Bytes bytes);

// About how long a call of so many bytes takes: one, and a second one where it is short or moves little.
double estimate_call(const Timing& timing, Bytes bytes);

// `place(sampling, number)` makes the work ready for batch `number` of a placement. `moves_nothing`: sizes that were
// rounded down to no bytes, which are not worth precision. Ends when both are precise or Plan::max_seconds have passed,
// with time and interval in microseconds.
void sample_until_precise(const Timing& timing, const BatchShape& shape, bool moves_nothing, Sampling& out_of_place,
                          Sampling& in_place, const std::function<void(const Sampling&, int number)>& place);

}  // namespace busbw

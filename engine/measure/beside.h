// Products beside a collective: each alone and both together, in turn, with the same work each time (--beside).
#pragma once

#include <memory>
#include <vector>

#include "engine/core/result.h"
#include "engine/measure/timing.h"

namespace busbw {

using Products = std::vector<std::unique_ptr<Product>>;

// Every thread of the job calls it with the products of its own ranks. `bytes` is the size of the case, by which
// Plan::beside may say how many calls and products there are; else as many as last for some milliseconds, and the
// products about as long as the calls. Times are those of the slowest rank.
BesideResult measure_beside(const Timing& timing, const Products& products, Bytes bytes);

}  // namespace busbw

// Sizes as nccl-tests writes them on a command line, and the list of sizes that one sweep measures.
#pragma once

#include <string_view>
#include <vector>

#include "engine/core/plan.h"
#include "engine/core/units.h"

namespace busbw {

// A number as C writes it (8, 1.5, 1e3, 0x10), then an optional K, M or G in either case: powers of 1024. Only the
// first letter counts, so 2GB is 2G. Throws Error(bad_arguments) for anything else.
Bytes parse_size(std::string_view text);

// The sizes of one sweep: from the first, by factor or step, up to and including the last. A first size of 0 is
// measured once; the sweep then goes on at the factor (0, f, f x f, ...) or at the step (0, i, 2i, ...). Throws
// Error(bad_arguments) where the sweep would not end, is empty, or has more than a million sizes.
std::vector<Bytes> sizes_of(const SizeRange& range);

// The sizes that the warm-up runs: the first one doubled until it exceeds the last. 0 is followed by the same size that
// follows it in the sweep.
std::vector<Bytes> warmup_sizes(const SizeRange& range);

}  // namespace busbw

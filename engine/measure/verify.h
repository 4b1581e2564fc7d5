// Inputs whose every result is known, and counting the elements that differ from it.
#pragma once

#include <cstdint>

#include "engine/measure/lanes.h"

namespace busbw {

// Fills the buffers of all lanes for a call: inputs from `seed`, the rest cleared. Asynchronous on their streams.
void fill(const Lanes& lanes, const Collective& collective, std::uint32_t seed, bool in_place);

// Wrong elements of all lanes after a call whose inputs `fill` made with the same seed. Waits for the result.
std::uint64_t count_wrong(const Lanes& lanes, const Collective& collective, std::uint32_t seed, bool in_place);

}  // namespace busbw

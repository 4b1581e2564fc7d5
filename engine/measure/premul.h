// The scalar of mulsum as the bits of an element.
#pragma once

#include <cstdint>

#include "engine/core/pattern.h"

namespace busbw {

// mulsum_scalar(rank) in the encoding of `type`, in the low bytes.
std::uint64_t premul_scalar_bits(DataType type, int rank);

}  // namespace busbw

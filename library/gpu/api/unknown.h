// Functions of an NCCL that is newer than this library.
#pragma once

#include <string>
#include <vector>

#include "library/common/nccl/real_nccl.h"

namespace busbw::gpu {

// Those that the real NCCL exports, that this library does not know, and that may put work on a stream.
std::vector<std::string> unknown_functions(const RealNccl& real);

// The first of them that an object of this process is linked to; "" for none. Its calls would run beside ours in no
// order.
std::string linked_to(const std::vector<std::string>& functions);

// A reason why NCCL must do everything, or "". Tells once on stderr of unknown functions that nothing is linked to.
std::string why_nccl_is_too_new();

}  // namespace busbw::gpu

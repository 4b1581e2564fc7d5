// The sentence behind a result code that this library, and not the real NCCL, has returned on this thread.
#pragma once

#include <string>

#include "busbw/nccl_abi.h"

namespace busbw {

ncclResult_t remember(ncclResult_t code, const std::string& sentence);
// A later failure is NCCL's own: its sentence is the one to give.
void forget();
// Null where this thread's last failure was not ours.
const char* remembered();

}  // namespace busbw

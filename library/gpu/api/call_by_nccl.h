// A call that we would take, by the real NCCL.
#pragma once

#include "library/gpu/run/call.h"

namespace busbw::gpu {

// ncclInvalidUsage where this NCCL has no function for it.
ncclResult_t call_by_nccl(ncclComm_t comm, const Call& call);

}  // namespace busbw::gpu

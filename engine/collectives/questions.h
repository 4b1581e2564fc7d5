// What nccl-tests asks the communicator inside its timed calls.
//
// Its collectives that need their rank or the number of ranks ask for them in every call, and the answer's time, some
// tens of nanoseconds, is part of the figure. So it is part of this one. The answers are known here and not looked at.
#pragma once

#include "engine/collectives/collective.h"
#include "engine/library_api/functions.h"

namespace busbw {

inline ncclResult_t ask_rank(const Call& call) {
  int rank = 0;
  return call.nccl.comm_user_rank != nullptr ? call.nccl.comm_user_rank(call.comm, &rank) : ncclSuccess;
}

inline ncclResult_t ask_size(const Call& call) {
  int ranks = 0;
  return call.nccl.comm_count != nullptr ? call.nccl.comm_count(call.comm, &ranks) : ncclSuccess;
}

inline ncclResult_t ask_size_and_rank(const Call& call) {
  const ncclResult_t asked = ask_size(call);
  return asked != ncclSuccess ? asked : ask_rank(call);
}

}  // namespace busbw

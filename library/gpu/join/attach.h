// Making communicators accelerated, right after the real NCCL has made them: ranks exchange what they are over the new
// communicator, decide alike, open each other's memory, and exchange whether that worked.
#pragma once

#include <vector>

#include "busbw/nccl_abi.h"

namespace busbw::gpu {

struct NewCommunicator {
  ncclComm_t comm = nullptr;
  // A non-blocking one may not wait for its peers here.
  bool blocking = true;
};

// Those that one thread made together, in the order in which it made them. Enters each in the registry; where a
// communicator cannot be accelerated NCCL does everything there. Throws nothing.
void attach(const std::vector<NewCommunicator>& made);

}  // namespace busbw::gpu

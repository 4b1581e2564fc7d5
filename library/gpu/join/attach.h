// Making communicators accelerated, right after the real NCCL has made them: ranks exchange what they are over the new
// communicator, decide alike, open each other's memory, and exchange whether that worked.
#pragma once

#include <atomic>
#include <vector>

#include "busbw/nccl_abi.h"
#include "library/gpu/join/wishes.h"

namespace busbw::gpu {

struct NewCommunicator {
  ncclComm_t comm = nullptr;
  Wishes wishes;
};

// Those that one thread made together, in the order in which it made them. Enters each in the registry; where a
// communicator cannot be accelerated NCCL does everything there. Throws nothing. Once
// `cancelled` they wait for no peer any more.
void attach(const std::vector<NewCommunicator>& made, const std::atomic<bool>* cancelled = nullptr);

}  // namespace busbw::gpu

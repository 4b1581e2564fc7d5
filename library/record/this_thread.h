// What a call needs of its thread, in one place: each variable of a thread costs a call of the loader's to find.
#pragma once

#include <atomic>
#include <cstdint>

#include "busbw/nccl_abi.h"
#include "library/record/host_clock.h"

namespace busbw::record {

struct Rank;

struct ThisThread {
  HostClock clock;
  // The communicator of the last call, and what find() said of it at that edition of the table.
  ncclComm_t comm = nullptr;
  Rank* rank = nullptr;
  std::uint64_t edition = 0;
  // Groups that are open, one within the other, and the number of the outermost.
  int groups = 0;
  std::uint16_t group = 0;
};

// Without a destructor: programs call NCCL while a thread ends.
extern constinit thread_local ThisThread this_thread;

// Changes when a handle may mean another communicator.
extern std::atomic<std::uint64_t> edition;

}  // namespace busbw::record

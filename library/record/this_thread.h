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
  // Where calls_inside_nccl of this thread is, once it was looked for.
  int* inside_nccl = nullptr;
  // The communicator of the last call, and what find() said of it at that edition of the table.
  ncclComm_t comm = nullptr;
  Rank* rank = nullptr;
  std::uint64_t edition = 0;
  // Groups that are open, one within the other, and the number of the outermost.
  int groups = 0;
  std::uint16_t group = 0;
};

// Without a destructor: programs call NCCL while a thread ends.
extern constinit thread_local ThisThread this_thread [[gnu::tls_model("local-dynamic"), gnu::visibility("hidden")]];

// What the program's own calls tell of its captures, so that the driver need not be asked at each call of NCCL.
struct Captures {
  // Begun and not ended.
  std::atomic<int> open{0};
  // The program begins captures through a table that leads to us.
  std::atomic<bool> are_told{false};
  // One was found that nobody told of: the driver is asked always.
  std::atomic<bool> were_hidden{false};
};

// What each call looks at and few change, in one line of the caches.
struct alignas(64) OfAllThreads {
  // Changes when a handle may mean another communicator.
  std::atomic<std::uint64_t> edition{1};
  Captures captures;
};
extern constinit OfAllThreads of_all_threads [[gnu::visibility("hidden")]];
inline constexpr std::atomic<std::uint64_t>& edition = of_all_threads.edition;
inline constexpr Captures& captures = of_all_threads.captures;

}  // namespace busbw::record

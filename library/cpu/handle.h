// What an ncclComm_t points to: a communicator with its guards against misuse, and the last errors.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "busbw/nccl_abi.h"
#include "library/common/failure.h"
#include "library/cpu/bootstrap.h"
#include "library/cpu/communicator.h"
#include "library/cpu/red_op.h"

struct ncclComm {
  static constexpr std::uint64_t live = 0x6d6d6f632d757063;

  std::uint64_t magic = live;
  // Null until its initialisation has finished; stays null if that failed.
  std::unique_ptr<busbw::cpu::Communicator> core;
  // What the communicator was made with, and how often it was made anew without some of its ranks, by these.
  busbw::cpu::UniqueId id{};
  std::map<std::vector<int>, std::uint64_t> shrinks;
  int device = 0;
  busbw::cpu::RedOps red_ops;
  // Set while a call is in progress: by a second thread at the same time it is a misuse, and an abort waits for it.
  std::atomic<int> busy{0};
  std::atomic<bool> abort_requested{false};
  std::atomic<bool> revoked{false};
  // The first failure of this communicator, returned by every later call.
  std::mutex guard;
  std::atomic<ncclResult_t> failed{ncclSuccess};
  std::string last_error;
};

namespace busbw::cpu {

// Keeps `sentence` for ncclGetLastError, of `comm` if not null, and of the process.
ncclResult_t remember(ncclComm_t comm, ncclResult_t code, const std::string& sentence);
// Valid until the next call from the same thread.
const char* last_error(ncclComm_t comm);

// Throws unless `comm` is a communicator that can be used.
ncclComm& checked(ncclComm_t comm);

// Runs `work` as the comm's only call; a failure in it spoils the communicator for good.
template <class Work>
ncclResult_t run_exclusively(ncclComm& comm, Work work) {
  if (comm.busy.exchange(1, std::memory_order_seq_cst) != 0) {
    return remember(&comm, ncclInvalidUsage, "Two threads use one communicator at the same time.");
  }
  ncclResult_t result = comm.failed.load(std::memory_order_relaxed);
  if (result == ncclSuccess) {
    try {
      if (comm.abort_requested.load(std::memory_order_relaxed)) {
        throw Failure(ncclInvalidUsage, "The communicator was aborted (ncclCommAbort).");
      }
      work(*comm.core);
    } catch (const Failure& failure) {
      result = remember(&comm, failure.code(), failure.what());
      comm.failed.store(result);
    } catch (const std::exception& error) {
      result = remember(&comm, ncclInternalError, error.what());
      comm.failed.store(result);
    }
  }
  comm.busy.store(0, std::memory_order_release);
  return result;
}

}  // namespace busbw::cpu

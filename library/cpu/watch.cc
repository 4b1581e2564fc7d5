// The slow part of waiting: backoff, liveness of peers, limits.
#include "library/cpu/watch.h"

#include <sched.h>

#include <algorithm>
#include <thread>

#include "library/common/failure.h"

namespace busbw::cpu {
namespace {

// Yields before the first nap: about a millisecond on an idle machine.
constexpr int yields = 2000;
constexpr std::chrono::microseconds longest_nap{1000};

}  // namespace

bool Watch::pause(Patience& patience) const {
  check();
  if (++patience.rounds < yields) {
    ::sched_yield();
    // Where others use the processor a yield takes long, so that the count alone does not bound this phase.
    if (patience.rounds % 64 != 0) return true;
  } else {
    std::this_thread::sleep_for(patience.nap);
    patience.nap = std::min(patience.nap * 2, longest_nap);
  }
  const auto now = Clock::now();
  if (now < patience.next_look) return true;
  patience.rounds = yields;
  patience.next_look = now + std::chrono::milliseconds(100);
  if (now - patience.begin > std::chrono::duration<double>(options_.limit_seconds)) {
    throw Failure(ncclTimeout, text("Rank %d waited for its peers for %g s in one call (ten times BUSBW_CPU_TIMEOUT).",
                                    options_.rank, options_.limit_seconds));
  }
  return false;
}

bool Watch::gone(int rank) const {
  const RankRecord& record = segment_->record(rank);
  const Attendance attendance = record.attendance.load(std::memory_order_acquire);
  if (attendance == Attendance::left) return true;
  return attendance != Attendance::absent && attendance != Attendance::arriving &&
         life_of(record.process) == Life::ended;
}

void Watch::fail_gone(int rank) {
  const RankRecord& record = segment_->record(rank);
  const bool left = record.attendance.load(std::memory_order_acquire) == Attendance::left;
  const std::string sentence =
      left ? text("Rank %d (pid %d on %s) destroyed its communicator while rank %d still waited for it.", rank,
                  record.process.pid, host_name().c_str(), options_.rank)
           : text("Rank %d (pid %d on %s) ended while rank %d waited for it.", rank, record.process.pid,
                  host_name().c_str(), options_.rank);
  announce_failure(segment_->header(), ncclRemoteError, sentence);
  throw Failure(ncclRemoteError, sentence);
}

ncclResult_t Watch::failure() const {
  if (aborted()) return ncclInvalidUsage;
  return ncclResult_t(segment_->header().failure.load(std::memory_order_acquire));
}

void Watch::throw_failure() const {
  if (aborted()) {
    throw Failure(ncclInvalidUsage, text("Rank %d's communicator was %s here.", options_.rank, aborted_.load()));
  }
  SegmentHeader& header = segment_->header();
  const auto code = ncclResult_t(header.failure.load(std::memory_order_acquire));
  throw Failure(code, header.failure_text);
}

}  // namespace busbw::cpu

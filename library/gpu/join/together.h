// Taking several communicators of one thread through an exchange together: one after the other they would wait for
// ranks that this thread has yet to come to.
//
// What is exchanged is a class with these steps, as Attachment and WindowOpening are. From open_peers() on each rank
// takes every step, whatever went wrong with it before, so that the ranks' all-gathers match: what went wrong travels
// in them.
//
//     records(), own_record(), lose_records(why), knows_records()       the first all-gather
//     open_peers(), meet_peers(deadline)                                what follows from it
//     verdicts(), own_verdict(), lose_verdicts(why), knows_verdicts()   whether that worked, on all ranks
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "library/common/failure.h"
#include "library/common/nccl/real_nccl.h"
#include "library/gpu/join/exchange.h"
#include "library/gpu/watch/background.h"

namespace busbw::gpu {

template <class One>
class Together {
 public:
  using All = std::vector<std::shared_ptr<One>>;

  // Nobody is waited for any more once `cancelled`. `patience`: seconds that each of the two all-gathers may take.
  static void agree(const All& all, double patience, const std::atomic<bool>* cancelled = nullptr) {
    if (all.empty()) return;
    const auto records = [](One& one) -> Exchange& { return one.records(); };
    const auto verdicts = [](One& one) -> Exchange& { return one.verdicts(); };
    const auto lose_records = [](One& one, const std::string& why) { one.lose_records(why); };
    const auto lose_verdicts = [](One& one, const std::string& why) { one.lose_verdicts(why); };

    start(all, patience, cancelled, records, [](const One& one) -> auto& { return one.own_record(); }, lose_records);
    wait(all, patience, cancelled, records, [](const One& one) { return one.knows_records(); }, lose_records);
    for (const auto& one : all) {
      rest_if_the_process_ends();
      if (one->knows_records()) one->open_peers();
    }
    // Who has sent its record comes here within moments; who cannot come shall not hold up the others for long.
    const auto meeting = after(std::min(patience, 10.0));
    for (const auto& one : all) {
      if (one->knows_records()) one->meet_peers(meeting);
    }
    // Those that have lost the first exchange send their refusal and do not wait: whoever comes late learns it so.
    start(all, patience, cancelled, verdicts, [](const One& one) -> auto& { return one.own_verdict(); }, lose_verdicts);
    wait(all, patience, cancelled, verdicts, [](const One& one) { return one.knows_verdicts(); }, lose_verdicts);
  }

 private:
  using Clock = std::chrono::steady_clock;

  static Clock::time_point after(double seconds) {
    return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }

  // One all-gather on every communicator. `mine` gives what to send; `lose` takes why nothing came of it.
  template <class Which, class Mine, class Lose>
  static void start(const All& all, double patience, const std::atomic<bool>* cancelled, Which which, Mine mine,
                    Lose lose) {
    const auto attempt = [&](One& one, auto work) {
      try {
        work();
      } catch (const Failure& failure) {
        lose(one, failure.what());
      }
    };
    const auto deadline = after(patience);
    call_nccl(real_nccl().group_start);
    for (const auto& one : all) attempt(*one, [&] { which(*one).start(&mine(*one)); });
    const ncclResult_t result = call_nccl(real_nccl().group_end);
    for (const auto& one : all) {
      if (result != ncclSuccess && result != ncclInProgress) lose(*one, "NCCL's all-gather did not start");
      attempt(*one, [&] {
        // On a non-blocking communicator NCCL starts it when it likes.
        while (result == ncclInProgress && !which(*one).in_its_stream()) {
          if (cancelled && *cancelled) throw Failure(ncclInternalError, "the communicator was aborted");
          if (Clock::now() > deadline) throw Failure(ncclInternalError, "NCCL's all-gather did not start in time");
          rest_if_the_process_ends();
          std::this_thread::sleep_for(std::chrono::microseconds(100));
        }
        which(*one).fetch();
      });
    }
  }

  // Until each is done or lost.
  template <class Which, class Known, class Lose>
  static void wait(const All& all, double patience, const std::atomic<bool>* cancelled, Which which, Known known,
                   Lose lose) {
    const auto begin = Clock::now();
    const auto deadline = after(patience);
    for (const auto& one : all) {
      while (known(*one)) {
        rest_if_the_process_ends();
        try {
          if (which(*one).done()) break;
          if (cancelled && *cancelled) lose(*one, "the communicator was aborted");
          if (Clock::now() > deadline) {
            lose(*one, text("the other ranks did not answer within %g s (BUSBW_GPU_TIMEOUT)", patience));
          }
        } catch (const Failure& failure) {
          lose(*one, failure.what());
        }
        const bool soon = Clock::now() - begin < std::chrono::milliseconds(20);
        std::this_thread::sleep_for(std::chrono::microseconds(soon ? 50 : 1000));
      }
    }
  }
};

}  // namespace busbw::gpu

// Takes the new communicators of a thread through the exchange together: one after the other they would wait for ranks
// that this thread has yet to come to.
#include "library/gpu/attach.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <optional>
#include <thread>

#include "library/common/failure.h"
#include "library/gpu/attachment.h"
#include "library/gpu/real_nccl.h"
#include "library/gpu/registry.h"
#include "library/gpu/settings.h"

namespace busbw::gpu {
namespace {

// What the environment says; a mistake there is told once and leaves everything to NCCL.
struct Wanted {
  Settings settings;
  std::string why_not;
};

Wanted wanted_now() {
  Wanted wanted;
  try {
    wanted.settings = Settings::from_environment();
    // Wrong text shall be told here, not by every communicator.
    if (wanted.settings.enabled) Choices::from_settings(wanted.settings.algorithm, wanted.settings.table, "");
    wanted.why_not = wanted.settings.enabled ? devices().why_none() : "BUSBW_GPU is 0";
  } catch (const Failure& failure) {
    wanted.why_not = failure.what();
    static std::atomic<bool> told{false};
    if (!told.exchange(true)) std::fprintf(stderr, "busbw: %s NCCL does everything.\n", failure.what());
  }
  return wanted;
}

struct Joining {
  ncclComm_t comm = nullptr;
  std::shared_ptr<Entry> entry;
  std::shared_ptr<Attachment> attachment;
  int rank = -1;
  int ranks = 0;
};

// Everything here is the same on all ranks of a communicator, so that either all of them exchange or none does.
std::string why_no_exchange(const NewCommunicator& made, const Joining& joining, const Wanted& wanted) {
  if (!wanted.why_not.empty()) return wanted.why_not;
  if (joining.ranks < 2) return "it has one rank";
  if (joining.ranks > max_ranks) return text("it has %d ranks, more than %d", joining.ranks, max_ranks);
  if (!made.blocking) return "it is non-blocking";
  return "";
}

Joining begin(const NewCommunicator& made, const Wanted& wanted) {
  Joining joining{.comm = made.comm, .entry = std::make_shared<Entry>()};
  joining.entry->blocking = made.blocking;
  if (made.blocking) {
    call_nccl(real_nccl().count, made.comm, &joining.ranks);
    call_nccl(real_nccl().user_rank, made.comm, &joining.rank);
  }
  joining.entry->reason = why_no_exchange(made, joining, wanted);
  if (!joining.entry->reason.empty()) return joining;
  try {
    joining.attachment = std::make_shared<Attachment>(made.comm, joining.rank, joining.ranks, wanted.settings);
    joining.attachment->prepare();
  } catch (const std::exception& error) {
    // The other ranks find out when their time is up.
    joining.entry->reason = error.what();
    std::fprintf(stderr, "busbw: rank %d cannot tell its peers what it is: %s\n", joining.rank, error.what());
  }
  return joining;
}

using Attachments = std::vector<std::shared_ptr<Attachment>>;

// One all-gather on every communicator. `mine` gives what to send; `lose` takes why nothing came of it.
template <class Which, class Mine, class Lose>
void start_together(const Attachments& all, Which which, Mine mine, Lose lose) {
  const auto attempt = [&](Attachment& one, auto work) {
    try {
      work();
    } catch (const Failure& failure) {
      lose(one, failure.what());
    }
  };
  call_nccl(real_nccl().group_start);
  for (const auto& one : all) attempt(*one, [&] { which(*one).start(&mine(*one)); });
  const ncclResult_t result = call_nccl(real_nccl().group_end);
  for (const auto& one : all) {
    if (result != ncclSuccess) lose(*one, "NCCL's all-gather did not start");
    attempt(*one, [&] { which(*one).fetch(); });
  }
}

WatchClock::time_point after_seconds(double patience) {
  return WatchClock::now() + std::chrono::duration_cast<WatchClock::duration>(std::chrono::duration<double>(patience));
}

// Until each is done or lost.
template <class Which, class Known, class Lose>
void wait_together(const Attachments& all, double patience, Which which, Known known, Lose lose) {
  const auto begin = WatchClock::now();
  const auto deadline = after_seconds(patience);
  for (const auto& one : all) {
    while (known(*one)) {
      try {
        if (which(*one).done()) break;
        if (WatchClock::now() > deadline) {
          lose(*one, text("the other ranks did not answer within %g s (BUSBW_GPU_TIMEOUT)", patience));
        }
      } catch (const Failure& failure) {
        lose(*one, failure.what());
      }
      const bool soon = WatchClock::now() - begin < std::chrono::milliseconds(20);
      std::this_thread::sleep_for(std::chrono::microseconds(soon ? 50 : 1000));
    }
  }
}

void agree_together(const Attachments& all, double patience) {
  const auto records = [](Attachment& one) -> Exchange& { return one.records(); };
  const auto verdicts = [](Attachment& one) -> Exchange& { return one.verdicts(); };
  const auto lose_records = [](Attachment& one, const std::string& why) { one.lose_records(why); };
  const auto lose_verdicts = [](Attachment& one, const std::string& why) { one.lose_verdicts(why); };

  start_together(all, records, [](const Attachment& one) -> auto& { return one.own_record(); }, lose_records);
  wait_together(all, patience, records, [](const Attachment& one) { return one.knows_records(); }, lose_records);
  for (const auto& one : all) {
    if (one->knows_records()) one->open_peers();
  }
  // Who has sent its record comes here within moments; who cannot come shall not hold up the others for long.
  const auto meeting = after_seconds(std::min(patience, 10.0));
  for (const auto& one : all) {
    if (one->knows_records()) one->meet_peers(meeting);
  }
  // Those that have lost the first exchange send their refusal and do not wait: whoever comes late learns it from this.
  start_together(all, verdicts, [](const Attachment& one) -> auto& { return one.own_verdict(); }, lose_verdicts);
  wait_together(all, patience, verdicts, [](const Attachment& one) { return one.knows_verdicts(); }, lose_verdicts);
}

void finish(Joining& joining, LogLevel log) {
  if (joining.attachment) {
    Entry entry = joining.attachment->conclude();
    entry.blocking = joining.entry->blocking;
    // Memory of an exchange that is still on its way goes when the communicator does.
    if (!joining.attachment->knows_verdicts()) entry.parked = joining.attachment;
    *joining.entry = std::move(entry);
  }
  if (log != LogLevel::none && joining.rank <= 0) {
    const std::string who = joining.attachment ? joining.attachment->describe() : "a communicator";
    const std::string what = joining.entry->ours ? "accelerated" : "NCCL does everything: " + joining.entry->reason;
    std::fprintf(stderr, "busbw: %s: %s\n", who.c_str(), what.c_str());
  }
  registry().put(joining.comm, joining.entry);
}

}  // namespace

void attach(const std::vector<NewCommunicator>& made) {
  const Wanted wanted = wanted_now();
  std::vector<Joining> joining;
  Attachments attachments;
  for (const NewCommunicator& one : made) {
    joining.push_back(begin(one, wanted));
    if (joining.back().attachment) attachments.push_back(joining.back().attachment);
  }
  if (!attachments.empty()) agree_together(attachments, wanted.settings.timeout_seconds);
  for (Joining& one : joining) finish(one, wanted.settings.log);
}

}  // namespace busbw::gpu

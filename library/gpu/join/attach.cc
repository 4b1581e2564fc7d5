// Takes the new communicators of a thread through the exchange together: one after the other they would wait for ranks
// that this thread has yet to come to.
#include "library/gpu/join/attach.h"

#include <atomic>
#include <cstdio>
#include <memory>
#include <optional>
#include <thread>

#include "library/common/failure.h"
#include "library/common/nccl/real_nccl.h"
#include "library/gpu/api/registry.h"
#include "library/gpu/api/unknown.h"
#include "library/gpu/check/ledger.h"
#include "library/gpu/choose/settings.h"
#include "library/gpu/cuda/device.h"
#include "library/gpu/join/attachment.h"
#include "library/gpu/join/together.h"

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
    if (wanted.settings.check) Ledger::of_this_process().open();
    wanted.why_not = wanted.settings.enabled ? devices().why_none() : "BUSBW_GPU is 0";
    if (wanted.why_not.empty()) wanted.why_not = why_nccl_is_too_new();
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
std::string why_no_exchange(const Joining& joining, const Wanted& wanted) {
  if (!wanted.why_not.empty()) return wanted.why_not;
  if (joining.ranks < 2) return "it has one rank";
  if (joining.ranks > max_ranks) return text("it has %d ranks, more than %d", joining.ranks, max_ranks);
  return "";
}

Joining begin(const NewCommunicator& made, const Wanted& wanted) {
  Joining joining{.comm = made.comm, .entry = std::make_shared<Entry>()};
  joining.entry->wishes = made.wishes;
  call_nccl(real_nccl().count, made.comm, &joining.ranks);
  call_nccl(real_nccl().user_rank, made.comm, &joining.rank);
  joining.entry->reason = why_no_exchange(joining, wanted);
  if (!joining.entry->reason.empty()) return joining;
  try {
    joining.attachment =
        std::make_shared<Attachment>(made.comm, joining.rank, joining.ranks, wanted.settings, made.wishes);
    joining.attachment->prepare();
  } catch (const std::exception& error) {
    // The other ranks find out when their time is up.
    joining.entry->reason = error.what();
    std::fprintf(stderr, "busbw: rank %d cannot tell its peers what it is: %s\n", joining.rank, error.what());
  }
  return joining;
}

void finish(Joining& joining, const Settings& settings) {
  if (joining.attachment) {
    joining.attachment->conclude(*joining.entry);
    joining.entry->share = joining.attachment->share();
    // Memory of an exchange that is still on its way goes when the communicator does.
    if (!joining.attachment->knows_verdicts()) joining.entry->parked = joining.attachment;
  }
  if (settings.log != LogLevel::none && joining.rank <= 0) {
    const std::string who = joining.attachment ? joining.attachment->describe() : "a communicator";
    const std::string what = joining.entry->ours ? std::string("accelerated, made for ") + name(settings.prefer)
                                                 : "NCCL does everything: " + joining.entry->reason;
    std::fprintf(stderr, "busbw: %s: %s\n", who.c_str(), what.c_str());
  }
  registry().put(joining.comm, joining.entry);
}

}  // namespace

void attach(const std::vector<NewCommunicator>& made, const std::atomic<bool>* cancelled) {
  const AsideFromCaptures aside;
  const Wanted wanted = wanted_now();
  std::vector<Joining> joining;
  std::vector<std::shared_ptr<Attachment>> attachments;
  for (const NewCommunicator& one : made) {
    joining.push_back(begin(one, wanted));
    if (joining.back().attachment) attachments.push_back(joining.back().attachment);
  }
  Together<Attachment>::agree(attachments, wanted.settings.timeout_seconds, cancelled);
  for (Joining& one : joining) finish(one, wanted.settings);
}

}  // namespace busbw::gpu

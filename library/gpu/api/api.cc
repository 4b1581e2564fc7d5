// The functions of the NCCL API that this library looks at. Each hands on to the real NCCL what is not ours. No
// exception leaves this file.
#include <dlfcn.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>

#include "library/common/failure.h"
#include "library/common/nccl/last_error.h"
#include "library/common/nccl/real_nccl.h"
#include "library/gpu/api/group.h"
#include "library/gpu/api/registry.h"
#include "library/gpu/check/ledger.h"
#include "library/gpu/watch/background.h"

#define BUSBW_EXPORT extern "C" __attribute__((visibility("default")))

using namespace busbw;       // NOLINT: the exported functions below are C
using namespace busbw::gpu;  // NOLINT

namespace {

// Turns exceptions into result codes, which the group around the call reports too.
template <class Work>
ncclResult_t guarded(Work work) {
  try {
    return work();
  } catch (const Failure& failure) {
    Group::of_this_thread().note_failure(failure.code());
    return remember(failure.code(), failure.what());
  } catch (const std::exception& error) {
    Group::of_this_thread().note_failure(ncclInternalError);
    return remember(ncclInternalError, error.what());
  }
}

// A call of the real NCCL, in which a missing function is an error with a sentence.
template <class Function, class... Arguments>
ncclResult_t forward(Names names, const char* name, Function* RealFunctions::* member, Arguments... arguments) {
  const RealNccl& real = real_nccl();
  Function* function = real.by(names).*member;
  if (!function) {
    throw Failure(ncclInvalidUsage, text("The NCCL in use (%s, %s) has no %s.", version_text(real.version).c_str(),
                                         real.path.c_str(), name));
  }
  const ncclResult_t result = call_nccl(function, arguments...);
  if (result != ncclSuccess && result != ncclInProgress) {
    forget();
    // Who asks how a communicator is adds nothing to a group: NCCL does not let it fail for that.
    if constexpr (!std::is_same_v<Function, ncclCommGetAsyncError_t>) Group::of_this_thread().note_failure(result);
  }
  return result;
}

bool inside_nccl() { return calls_inside_nccl > 0; }

// What we know of a communicator. One whose ranks are just meeting is waited for: all ranks must use it alike, whether
// their programs have asked if it is ready or not. Before that NCCL itself says that it is not.
std::shared_ptr<Entry> known(ncclComm_t comm) {
  std::shared_ptr<Entry> entry = registry().find(comm);
  while (entry && entry->pending && !entry->pending->done()) {
    ncclResult_t state = ncclSuccess;
    call_nccl(real_nccl().get_async_error, comm, &state);
    if (entry->pending->with_nccl() && state != ncclSuccess) return entry;
    entry->pending->wait();
    if (process_ends()) return entry;
    entry = registry().find(comm);
  }
  return entry;
}

// What we know of a communicator; throws a Failure if it is poisoned.
std::shared_ptr<Entry> usable(ncclComm_t comm) {
  if (inside_nccl()) return nullptr;
  std::shared_ptr<Entry> entry = known(comm);
  if (entry && entry->state()) entry->state()->check();
  return entry;
}

// A call that goes to NCCL, in its place among those of ours on the same communicator.
// Whether all ranks of the communicator make the call.
enum class Kind : int { between_some = 0, of_all = 1 };

template <class Real>
ncclResult_t in_order(ncclComm_t comm, const std::shared_ptr<Communicator>& ours, DeviceStream stream, Kind kind,
                      Real real) {
  if (!ours) return real();
  Group& group = Group::of_this_thread();
  if (group.open()) {
    const ncclResult_t result = real();
    group.note_nccl(comm, ours, stream, int(kind));
    return result;
  }
  const Turn turn = ours->before(stream, int(kind));
  const AsideWhereNcclMayConnect aside(turn.capture != 0);
  const ncclResult_t result = real();
  if (result == ncclInProgress) ours->after_later(turn);
  if (result == ncclSuccess) ours->after(turn);
  if (result != ncclInProgress && result != ncclSuccess) ours->forget(turn, int(kind));
  return result;
}

// For the summary of BUSBW_CHECK=1; `why` is asked where the communicator does not say it.
template <class Why>
void note_handed_on(const std::shared_ptr<Entry>& entry, Why why) {
  // A program may use communicators that were not made through us.
  static Ledger& ledger = []() -> Ledger& {
    const char* setting = std::getenv("BUSBW_CHECK");
    if (setting && std::string(setting) == "1") Ledger::of_this_process().open();
    return Ledger::of_this_process();
  }();
  if (!ledger.is_open() || inside_nccl()) return;
  ledger.hand_on(entry && !entry->ours ? entry->reason : why());
}

template <class Real>
ncclResult_t by_nccl(const char* function, ncclComm_t comm, ncclStream_t stream, Real real, Kind kind = Kind::of_all) {
  const std::shared_ptr<Entry> entry = usable(comm);
  note_handed_on(entry, [&] { return std::string(function) + " is always NCCL's"; });
  return in_order(comm, entry ? entry->ours : nullptr, stream, kind, real);
}

// A call that was counted and does not take place is not counted: its peers may never make it, as where a program tries
// what NCCL refuses.
class Counted {
 public:
  explicit Counted(Communicator* ours) : ours_(ours) {}
  ~Counted() {
    if (ours_) ours_->take_back(1);
  }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

  ncclResult_t keep(ncclResult_t result) {
    if (result == ncclSuccess || result == ncclInProgress) ours_ = nullptr;
    return result;
  }

 private:
  Communicator* ours_;
};

template <class Real>
ncclResult_t collective(ncclComm_t comm, const Call& call, Real real) {
  const std::shared_ptr<Entry> entry = usable(comm);
  if (!entry || !entry->ours) {
    note_handed_on(entry, [] { return "a communicator that was not made through busbw"; });
    return real();
  }
  const Choice choice = entry->ours->decide_next(call);
  Group& group = Group::of_this_thread();
  if (group.open()) {
    group.count(comm, entry->ours);
    if (choice.accelerated) return group.defer(comm, entry->ours, call, choice), ncclSuccess;
  }
  Counted counted(group.open() ? nullptr : entry->ours.get());
  if (choice.accelerated) {
    entry->ours->launch(call, choice);
    return counted.keep(ncclSuccess);
  }
  note_handed_on(entry, [&] { return std::string(name(call.collective)) + ": " + choice.reason; });
  return counted.keep(in_order(comm, entry->ours, call.stream, Kind::of_all, real));
}

// `make` asks the real NCCL for communicators, which it may make from a parent.
template <class Make>
ncclResult_t make_communicators(ncclComm_t parent, const ncclComm_t* comms, int count, const Wishes& wishes,
                                Make make) {
  const ncclResult_t result = make();
  const bool made = result == ncclSuccess || result == ncclInProgress;
  if (made && !inside_nccl()) note_new_communicators({comms, count, wishes, parent});
  return result;
}

// The parent's ways, for communicators that are made from it.
Wishes wishes_like(ncclComm_t parent, const ncclConfig_t* config) {
  const std::shared_ptr<Entry> entry = registry().find(parent);
  // NCCL takes all of them over where it is given none.
  return config || !entry ? wishes_of(config) : wishes_of(nullptr, entry->wishes);
}

enum class End { orderly, abort };

// One that is on its way gets there, or gives up where it is aborted or its ranks have not begun to meet.
void settle(ncclComm_t comm, End how) {
  const std::shared_ptr<Entry> entry = registry().find(comm);
  if (!entry) return;
  // Its children are on their way on threads that ask NCCL about it.
  const bool poisoned = entry->state() && entry->state()->code() != ncclSuccess;
  if (how == End::abort || poisoned) entry->aborted = true;
  while (entry->making > 0 && !process_ends()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (!entry->pending) return;
  if (how == End::abort || entry->pending->with_nccl()) entry->pending->cancel();
  entry->pending->wait();
}

// A peer may be dead: NCCL's own end of such a communicator is an abort, as it would wait for that peer otherwise. An
// abort stays one in any case: it is called while other threads are inside a call that only an abort brings back.
ncclResult_t destroy(Names names, ncclComm_t comm, End how) {
  if (!inside_nccl()) settle(comm, how);
  const std::shared_ptr<Entry> entry = inside_nccl() ? nullptr : registry().take(comm);
  bool poisoned = entry && entry->state() && entry->state()->code() != ncclSuccess;
  // Of a peer that has gone by itself nothing is needed any more but what is in the streams already.
  if (!poisoned && how == End::orderly && entry && entry->ours && entry->state()->limited()) {
    entry->ours->drain();
    poisoned = true;
  }
  if ((poisoned || how == End::abort) && real_nccl().abort) {
    // NCCL first: nothing else ends a kernel of its own, and ours may stand behind one.
    const ncclResult_t result = forward(names, "ncclCommAbort", &RealFunctions::abort, comm);
    if (entry && entry->ours) Communicator::retire(std::move(entry->ours));
    return result;
  }
  if (entry && entry->ours) entry->ours->drain();
  const ncclResult_t result = forward(names, "ncclCommDestroy", &RealFunctions::destroy, comm);
  // Peers' kernels may write to our memory until they have come here too, and NCCL's returns when they have.
  if (entry && entry->ours) Group::of_this_thread().let_go(std::move(entry->ours));
  return result;
}

// Ends what runs on a communicator. Only an abort concerns the other ranks: they revoke and shrink it themselves.
void stop(ncclComm_t comm, ncclResult_t code, const char* how) {
  const std::shared_ptr<Entry> entry = inside_nccl() ? nullptr : registry().find(comm);
  if (!entry || !entry->ours) return;
  const std::string sentence = text("This communicator was stopped here (%s).", how);
  if (code == ncclRemoteError) return entry->ours->abort(sentence);
  entry->ours->health().poison(code, sentence);
}

}  // namespace

BUSBW_EXPORT const char* busbwLibraryName() {
  // Over our CPU library too, whose name tells the engine that it works in host memory.
  static const std::string name = [] {
    try {
      const RealNccl& real = real_nccl();
      const auto own_name = reinterpret_cast<busbwLibraryName_t*>(dlsym(real.handle, "busbwLibraryName"));
      return "busbw GPU library " BUSBW_VERSION " over " +
             (own_name ? own_name() : "NCCL " + version_text(real.version));
    } catch (const std::exception&) {
      return std::string("busbw GPU library " BUSBW_VERSION " without NCCL");
    }
  }();
  return name.c_str();
}

#define BUSBW_NAME(name) name
#define BUSBW_NAMES Names::plain
#include "library/gpu/api/functions.inc"
#undef BUSBW_NAME
#undef BUSBW_NAMES

#define BUSBW_NAME(name) p##name
#define BUSBW_NAMES Names::profiling
#include "library/gpu/api/functions.inc"
#undef BUSBW_NAME
#undef BUSBW_NAMES

BUSBW_EXPORT int busbwExplainCall(ncclComm_t comm, int collective, const void* send, const void* recv, size_t count,
                                  ncclDataType_t type, ncclRedOp_t op, char* text, size_t size) {
  if (!text || size == 0 || collective < 0 || collective >= collective_count) return -1;
  try {
    const std::shared_ptr<Entry> entry = registry().find(comm);
    std::string answer = "nccl: this communicator was not made through busbw's GPU library";
    if (entry && !entry->ours) answer = "nccl: " + entry->reason;
    if (entry && entry->ours) {
      answer = describe(entry->ours->decide({.collective = Collective(collective),
                                             .type = type,
                                             .op = op,
                                             .count = count,
                                             .send = send,
                                             .recv = const_cast<void*>(recv)}));
    }
    std::snprintf(text, size, "%s", answer.c_str());
    return 0;
  } catch (const std::exception&) {
    return -1;
  }
}

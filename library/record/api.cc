// libbusbw_record.so: the functions of the NCCL API that the recorder looks at. Each goes on to the NCCL behind, or to
// the library that BUSBW_RECORD_OVER names. No exception leaves this file.
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>

#include "library/common/failure.h"
#include "library/common/nccl/last_error.h"
#include "library/common/nccl/real_nccl.h"
#include "library/record/communicators.h"
#include "library/record/cuda.h"
#include "library/record/gpu_times.h"
#include "library/record/graphs.h"
#include "library/record/this_thread.h"

#define BUSBW_EXPORT extern "C" __attribute__((visibility("default")))

namespace busbw {

const LibraryInFront this_library = {"busbw's recorder", "busbwRecorder", "BUSBW_RECORD_OVER"};

}  // namespace busbw

using namespace busbw;          // NOLINT: the exported functions below are C
using namespace busbw::record;  // NOLINT

namespace {

template <class Work>
ncclResult_t guarded(Work work) {
  try {
    return work();
  } catch (const Failure& failure) {
    return remember(failure.code(), failure.what());
  } catch (const std::exception& error) {
    return remember(ncclInternalError, error.what());
  }
}

[[noreturn, gnu::cold, gnu::noinline]] void lacks(const RealNccl& real, const char* name) {
  throw Failure(ncclInvalidUsage, text("The NCCL in use (%s, %s) has no %s.", version_text(real.version).c_str(),
                                       real.path.c_str(), name));
}

template <class Function, class... Arguments>
[[gnu::always_inline]] inline ncclResult_t forward(int& inside, Names names, const char* name,
                                                   Function* RealFunctions::* member, Arguments... arguments) {
  const RealNccl& real = real_nccl();
  Function* function = real.by(names).*member;
  if (!function) lacks(real, name);
  ncclResult_t result = ncclInternalError;
  {
    const InsideNccl counted(inside);
    result = function(arguments...);
  }
  // The last error is NCCL's then.
  if (record::is_failure(result)) forget();
  return result;
}

// NCCL's calls of its own functions are not the program's.
bool inside_nccl() { return calls_inside_nccl > 0; }

// Of a call in this stream. What launches its graph may have been loaded since.
bool was_captured(const void* stream, void** graph, Recording& recording) {
  const bool told = captures.open.load(std::memory_order_relaxed) != 0;
  if (!is_captured(stream, graph)) return false;
  if (!told) captures.were_hidden.store(true, std::memory_order_relaxed);
  hook_graphs();
  recording.header().sees_launches.store(graphs_are_hooked() ? 1 : 0, std::memory_order_relaxed);
  return true;
}

// Now and then, so that somebody may ask whether the GPU has begun it.
[[gnu::noinline]] Mark mark_of(Rank& rank, const Ticket& ticket, const Given& given, bool asked) {
  if (!is_collective(given.kind) || !rank.marks->is_due(ticket.begun_ns, ticket.before_ns, ticket.sequence)) return {};
  void* graph = nullptr;
  if (!asked && was_captured(given.stream, &graph, *rank.recording)) return {};
  return rank.marks->begin(given.stream, ticket.sequence, ticket.sequence, ticket.begun_ns);
}

template <class Real>
ncclResult_t call(ncclComm_t comm, Given given, Real real) {
  ThisThread* here = &this_thread;
  // Else the compiler asks the loader for it again at each use.
  asm("" : "+r"(here));
  ThisThread& thread = *here;
  if (!thread.inside_nccl) thread.inside_nccl = &calls_inside_nccl;
  int& inside = *thread.inside_nccl;
  Rank* rank = inside > 0 ? nullptr : find(comm, thread);
  if (!rank) return real(inside);
  Recording& recording = *rank->recording;
  const bool grouped = thread.groups > 0;
  given.group = thread.group;
  void* graph = nullptr;
  const bool asked = !rank->row || may_be_captured(rank->row->entered.load(std::memory_order_relaxed));
  bool captures = asked && was_captured(given.stream, &graph, recording);
  if (captures) given.flags |= flag_captured;
  const Ticket ticket = recording.begin(rank->row, given, thread.clock.now());
  Timed* timed = nullptr;
  if (!captures && is_sampled(*rank, ticket.sequence) &&
      (asked || !(captures = was_captured(given.stream, &graph, recording)))) {
    if (grouped) {
      Group::of_this_thread().time(rank, ticket, given.stream);
    } else {
      timed = begin_time(rank, ticket, given.stream);
    }
  }
  const bool may_be_marked = !captures && rank->marks && rank->marks->may_be_due(ticket.begun_ns, ticket.before_ns);
  const Mark mark = may_be_marked ? mark_of(*rank, ticket, given, asked) : Mark{};
  ncclResult_t result = ncclInternalError;
  try {
    result = real(inside);
  } catch (...) {
    recording.end(ticket, result, true);
    end_time(timed, false);
    throw;
  }
  if (mark.of) grouped ? Group::of_this_thread().add(mark) : mark.end(result == ncclSuccess);
  // A call of a communicator that does not block is given to the GPU later, by a thread of NCCL's.
  if (timed) end_time(timed, result == ncclSuccess);
  if (graph && result == ncclSuccess) captured(graph, {rank, given});
  if (grouped) Group::of_this_thread().add(rank, ticket);
  recording.end(ticket, result, !grouped, thread.clock.now());
  return result;
}

// Of what this rank sends to all ranks.
std::uint64_t sum_for(ncclComm_t comm, const size_t* counts) {
  const Rank* rank = inside_nccl() ? nullptr : find(comm);
  std::uint64_t sum = 0;
  for (int i = 0; counts && rank && rank->row && i < rank->row->ranks; ++i) sum += counts[i];
  return sum;
}

// `one` says what is known before NCCL has made it.
template <class Real>
ncclResult_t make(const NewRank& one, Real real) {
  if (inside_nccl()) return real();
  Making making(one);
  const ncclResult_t result = real();
  if (result == ncclSuccess || result == ncclInProgress)
    made(one);
  else
    making.refused(result);
  return result;
}

NewRank child(ncclComm_t parent, record::Made how, int color, const ncclComm_t* handle) {
  NewRank one{.handle = handle, .how = how, .color = color};
  if (Rank* rank = inside_nccl() ? nullptr : find(parent)) {
    const std::uint64_t number = rank->children.fetch_add(1);
    one.parent = rank->identity;
    one.identity = identity_of_child(rank->identity, how, number, color);
    if (how == record::Made::grow) one.color = int(number);
  }
  return one;
}

NewRank shrunk(ncclComm_t parent, const int* excluded, int count, const ncclComm_t* handle) {
  NewRank one{.handle = handle, .how = record::Made::shrink};
  if (Rank* rank = inside_nccl() ? nullptr : find(parent)) {
    one.parent = rank->identity;
    one.identity = identity_of_shrunk(*rank, excluded, count);
  }
  return one;
}

template <class Work>
ncclResult_t end(ncclComm_t comm, Ended how, Work work) {
  // An abort waits for nobody.
  const Ending ending(inside_nccl() || how != Ended::destroyed ? nullptr : find(comm));
  if (!inside_nccl()) ended(comm, how);
  return work();
}

}  // namespace

BUSBW_EXPORT int busbwRecorder() { return record::version; }

// Over our CPU library too, whose name tells the engine that it works in host memory.
BUSBW_EXPORT const char* busbwLibraryName() {
  static const std::string name = [] {
    try {
      const RealNccl& real = real_nccl();
      const auto own_name = reinterpret_cast<busbwLibraryName_t*>(dlsym(real.handle, "busbwLibraryName"));
      return "busbw recorder " BUSBW_VERSION " over " + (own_name ? own_name() : "NCCL " + version_text(real.version));
    } catch (const std::exception&) {
      return std::string("busbw recorder " BUSBW_VERSION " without NCCL");
    }
  }();
  return name.c_str();
}

#define BUSBW_NAME(name) name
#define BUSBW_NAMES Names::plain
#include "library/record/functions.inc"
#undef BUSBW_NAME
#undef BUSBW_NAMES

#define BUSBW_NAME(name) p##name
#define BUSBW_NAMES Names::profiling
#include "library/record/functions.inc"
#undef BUSBW_NAME
#undef BUSBW_NAMES

// Pairs of events, kept for each CUDA context, and the GPU's clock beside the host's.
//
// The driver tells times between two events only, as a float of milliseconds. So each pair's begin is measured from the
// pair before, which keeps the difference short and the float exact to less than a microsecond. No call begins on the
// GPU before it began on the host: the largest lead of the host's clock that this allows is taken for the difference of
// the clocks. It is exact as soon as one call found an idle GPU, and may shrink by 50 ns a millisecond, as clocks
// drift.
#include "library/record/gpu_times.h"

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <vector>

#include "library/record/cuda.h"

namespace busbw::record {

struct Timed {
  Recording* recording = nullptr;
  struct Clock* clock = nullptr;
  const void* stream = nullptr;
  CudaEvent begin = nullptr, end = nullptr;
  std::uint64_t begun_ns = 0;
  std::vector<Ticket> calls;
};

// Of one context.
struct Clock {
  std::deque<Timed*> running;
  std::vector<CudaEvent> free;
  std::size_t events = 0;
  // The event that the next begin is measured from, and when it was by the GPU's clock (0 at the first one).
  CudaEvent last = nullptr;
  double last_ns = 0;
  // What to add for the host's clock, and when that was learned.
  double lead_ns = -1e300;
  double learned_ns = 0;
};

namespace {

// At most so many calls are under way with a time; further ones go without.
constexpr std::size_t most_events = 1024;
constexpr double drift = 50e-6;
constexpr int first_own_stream = 3;  // 0 to 2 name the legacy and the per-thread stream

std::mutex guard;

std::map<CudaContext, Clock>& clocks() {
  static auto* all = new std::map<CudaContext, Clock>;
  return *all;
}

CudaEvent event_of(Clock& clock) {
  if (!clock.free.empty()) {
    CudaEvent event = clock.free.back();
    clock.free.pop_back();
    return event;
  }
  CudaEvent event = nullptr;
  if (clock.events >= most_events || cuda()->event_create(&event, 0) != 0) return nullptr;
  ++clock.events;
  return event;
}

void give_back(Clock& clock, CudaEvent event) {
  if (event) clock.free.push_back(event);
}

// The context of this thread, where it is that of the communicator's GPU and of the stream.
Clock* clock_for(const Rank& rank, const void* stream) {
  CudaContext here = nullptr, theirs = nullptr;
  int device = -1;
  if (cuda()->context(&here) != 0 || !here || cuda()->device(&device) != 0) return nullptr;
  if (rank.row && rank.row->device >= 0 && rank.row->device != device) return nullptr;
  if (reinterpret_cast<std::uintptr_t>(stream) >= first_own_stream &&
      (cuda()->context_of(stream, &theirs) != 0 || theirs != here))
    return nullptr;
  return &clocks()[here];
}

// Takes a pair that the GPU has passed.
void take(Clock& clock, Timed& timed) {
  float between = 0, since = 0;
  const bool known = cuda()->elapsed(&between, timed.begin, timed.end) == 0 &&
                     (!clock.last || cuda()->elapsed(&since, clock.last, timed.begin) == 0);
  if (!known || between < 0) {
    for (std::size_t i = 0; i < timed.calls.size(); ++i) timed.recording->miss_time();
    give_back(clock, timed.begin);
    give_back(clock, timed.end);
    return;
  }
  const double begun = clock.last_ns + double(since) * 1e6;
  const double faded = clock.lead_ns - std::max(0.0, begun - clock.learned_ns) * drift;
  clock.lead_ns = std::max(faded, double(timed.begun_ns) - begun);
  clock.learned_ns = std::max(clock.learned_ns, begun);
  give_back(clock, clock.last);
  give_back(clock, timed.end);
  clock.last = timed.begin;
  clock.last_ns = begun;
  const auto host_ns = std::uint64_t(std::max(0.0, begun + clock.lead_ns));
  for (const Ticket& call : timed.calls)
    timed.recording->time(call, host_ns, std::uint64_t(double(between) * 1e6), timed.calls.size() > 1);
}

void look(Clock& clock) {
  // Streams come to their ends in any order.
  for (auto one = clock.running.begin(); one != clock.running.end();) {
    if (cuda()->event_query((*one)->end) != 0) {
      ++one;
      continue;
    }
    take(clock, **one);
    delete *one;
    one = clock.running.erase(one);
  }
}

}  // namespace

Timed* begin_time(Rank* rank, const Ticket& ticket, const void* stream) {
  if (!cuda() || !cuda()->can_time()) return rank->recording->miss_time(), nullptr;
  const std::lock_guard lock(guard);
  const AsideFromCaptures aside;
  Clock* clock = clock_for(*rank, stream);
  if (clock) look(*clock);
  CudaEvent begin = clock ? event_of(*clock) : nullptr;
  CudaEvent end = begin ? event_of(*clock) : nullptr;
  if (!end || cuda()->event_record(begin, stream) != 0) {
    if (clock) give_back(*clock, begin), give_back(*clock, end);
    return rank->recording->miss_time(), nullptr;
  }
  return new Timed{rank->recording, clock, stream, begin, end, ticket.begun_ns, {ticket}};
}

void add_to_time(Timed* timed, const Ticket& ticket) { timed->calls.push_back(ticket); }

bool is_on(const Timed* timed, const void* stream) { return timed->stream == stream; }

void end_time(Timed* timed, bool worked) {
  if (!timed) return;
  const std::lock_guard lock(guard);
  if (worked && cuda()->event_record(timed->end, timed->stream) == 0) {
    timed->clock->running.push_back(timed);
    return;
  }
  for (std::size_t i = 0; i < timed->calls.size(); ++i) timed->recording->miss_time();
  give_back(*timed->clock, timed->begin);
  give_back(*timed->clock, timed->end);
  delete timed;
}

void look_at_times(Recording* recording) {
  if (recording->header().times_every == 0 || !cuda() || !cuda()->can_time()) return;
  const std::lock_guard lock(guard);
  const AsideFromCaptures aside;
  for (auto& [context, clock] : clocks()) look(clock);
}

}  // namespace busbw::record

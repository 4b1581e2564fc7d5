// Pairs of events, kept for each CUDA context, and the GPU's clock beside the host's.
//
// The driver tells times between two events only, as a float of milliseconds. So each pair's begin is measured from the
// pair before, which keeps the difference short and the float exact to less than a microsecond. No call begins on the
// GPU before it began on the host: the largest lead of the host's clock that this allows is taken for the difference of
// the clocks. It is exact as soon as one call found an idle GPU, and may shrink by 50 ns a millisecond, as clocks
// drift.
//
// A call pays for two events alone; what they tell is asked for together, each 32 calls or after a millisecond, or by a
// thread of ours. A begin cannot be the end of the call before it: what else the program put between them is not known.
#include "library/record/gpu_times.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "library/record/cuda.h"
#include "library/record/heart.h"

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
  // Since the last look, and when that was.
  std::size_t begun_since = 0;
  std::uint64_t looked_ns = 0;
  // The last stream that was found to be of this context, with the device of its communicator.
  const void* stream = nullptr;
  int device = -1;
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
constexpr int not_ready = 600;
// From one look to the next: so many calls, or so long.
constexpr std::size_t calls_between = 32;
constexpr std::uint64_t between_ns = 1'000'000;

// Of the lists; and, taken before it, of what a look does with the driver meanwhile.
std::mutex guard, looking;
// Never destroyed: a thread waits for it while the program exits.
auto& many_wait = *new std::condition_variable;

std::map<CudaContext, Clock>& clocks() {
  static auto* all = new std::map<CudaContext, Clock>;
  return *all;
}

// A child of a fork has none of the threads that may have held them.
void forget_in_child() {
  new (&guard) std::mutex;
  new (&looking) std::mutex;
  new (std::addressof(many_wait)) std::condition_variable;
}

// Whether a thread of ours looks, in place of the program's next call (BUSBW_RECORD_TIMES_ASIDE).
bool looks_aside() {
  static const bool aside = [] {
    ::pthread_atfork(nullptr, nullptr, forget_in_child);
    const char* word = std::getenv("BUSBW_RECORD_TIMES_ASIDE");
    return word && std::strcmp(word, "1") == 0;
  }();
  return aside;
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
  if (cuda()->context(&here) != 0 || !here) return nullptr;
  Clock& clock = clocks()[here];
  const int wanted = rank.row ? rank.row->device : -1;
  // As the call before: the driver refuses the event where a stream of that name is another context's by now.
  if (clock.stream == stream && clock.device == wanted && clock.device >= 0) return &clock;
  if (cuda()->device(&device) != 0 || (wanted >= 0 && wanted != device)) return nullptr;
  if (reinterpret_cast<std::uintptr_t>(stream) >= first_own_stream &&
      (cuda()->context_of(stream, &theirs) != 0 || theirs != here))
    return nullptr;
  clock.stream = stream;
  clock.device = wanted;
  return &clock;
}

void miss(const Timed& timed) {
  for (std::size_t i = 0; i < timed.calls.size(); ++i) timed.recording->miss_time();
}

// Takes a pair that the GPU has passed; false where it has not. Adds the events that nobody needs any more.
bool take(Clock& clock, Timed& timed, std::vector<CudaEvent>& free) {
  float between = 0, since = 0;
  const int said = cuda()->elapsed(&between, timed.begin, timed.end);
  if (said == not_ready) return false;
  if (said != 0 || (clock.last && cuda()->elapsed(&since, clock.last, timed.begin) != 0) || between < 0) {
    miss(timed);
    free.insert(free.end(), {timed.begin, timed.end});
    return true;
  }
  const double begun = clock.last_ns + double(since) * 1e6;
  const double faded = clock.lead_ns - std::max(0.0, begun - clock.learned_ns) * drift;
  clock.lead_ns = std::max(faded, double(timed.begun_ns) - begun);
  clock.learned_ns = std::max(clock.learned_ns, begun);
  if (clock.last) free.push_back(clock.last);
  free.push_back(timed.end);
  clock.last = timed.begin;
  clock.last_ns = begun;
  const auto host_ns = std::uint64_t(std::max(0.0, begun + clock.lead_ns));
  for (const Ticket& call : timed.calls)
    timed.recording->time(call, host_ns, std::uint64_t(double(between) * 1e6), timed.calls.size() > 1);
  return true;
}

// With `looking` held, and the lists free while the driver is asked.
void look(Clock& clock) {
  std::deque<Timed*> all;
  {
    const std::lock_guard lock(guard);
    all.swap(clock.running);
    clock.begun_since = 0;
  }
  std::vector<CudaEvent> free;
  // Streams come to their ends in any order, the calls of one in theirs.
  std::vector<const void*> wait;
  std::erase_if(all, [&](Timed* one) {
    if (std::find(wait.begin(), wait.end(), one->stream) != wait.end()) return false;
    if (!take(clock, *one, free)) return wait.push_back(one->stream), false;
    delete one;
    return true;
  });
  const std::lock_guard lock(guard);
  clock.free.insert(clock.free.end(), free.begin(), free.end());
  clock.running.insert(clock.running.begin(), all.begin(), all.end());
}

void* look_again_and_again(void* argument) {
  const Header& header = static_cast<Recording*>(argument)->header();
  const AsideFromCaptures aside;
  while (header.ended.load(std::memory_order_acquire) == 0) {
    std::vector<std::pair<CudaContext, Clock*>> all;
    {
      std::unique_lock lock(guard);
      many_wait.wait_for(lock, std::chrono::milliseconds(20));
      for (auto& [context, clock] : clocks())
        if (!clock.running.empty()) all.emplace_back(context, &clock);
    }
    const std::lock_guard lock(looking);
    for (auto& [context, clock] : all)
      if (header.ended.load(std::memory_order_acquire) == 0 && cuda()->set_context(context) == 0) look(*clock);
  }
  return nullptr;
}

// Once for each recording, as a child of a fork has no thread yet.
void start_to_look(Recording* recording) {
  static std::atomic<Recording*> of{nullptr};
  if (of.load(std::memory_order_relaxed) == recording || of.exchange(recording) == recording) return;
  start_thread("busbw-times", look_again_and_again, recording);
}

}  // namespace

Timed* begin_time(Rank* rank, const Ticket& ticket, const void* stream) {
  if (!cuda() || !cuda()->can_time()) return rank->recording->miss_time(), nullptr;
  const bool aside_of_calls = looks_aside() && cuda()->set_context;
  const AsideFromCaptures aside;
  if (aside_of_calls) start_to_look(rank->recording);
  std::unique_lock lock(guard);
  Clock* clock = clock_for(*rank, stream);
  if (!clock) return rank->recording->miss_time(), nullptr;
  if (!aside_of_calls && !clock->running.empty() &&
      (++clock->begun_since >= calls_between || ticket.begun_ns - clock->looked_ns >= between_ns)) {
    clock->looked_ns = ticket.begun_ns;
    lock.unlock();
    if (const std::unique_lock now(looking, std::try_to_lock); now) look(*clock);
    lock.lock();
  }
  CudaEvent begin = event_of(*clock);
  CudaEvent end = begin ? event_of(*clock) : nullptr;
  if (!end || cuda()->event_record(begin, stream) != 0) {
    give_back(*clock, begin), give_back(*clock, end);
    return rank->recording->miss_time(), nullptr;
  }
  return new Timed{rank->recording, clock, stream, begin, end, ticket.begun_ns, {ticket}};
}

void add_to_time(Timed* timed, const Ticket& ticket) { timed->calls.push_back(ticket); }

bool is_on(const Timed* timed, const void* stream) { return timed->stream == stream; }

void end_time(Timed* timed, bool worked) {
  if (!timed) return;
  const std::lock_guard lock(guard);
  Clock& clock = *timed->clock;
  if (worked && cuda()->event_record(timed->end, timed->stream) == 0) {
    clock.running.push_back(timed);
    if (looks_aside() && clock.running.size() % (2 * calls_between) == 0) many_wait.notify_one();
    return;
  }
  miss(*timed);
  give_back(clock, timed->begin);
  give_back(clock, timed->end);
  delete timed;
}

void look_at_times(Recording* recording) {
  if (recording->times_every() == 0 || !cuda() || !cuda()->can_time()) return;
  const std::lock_guard lock(looking);
  const AsideFromCaptures aside;
  std::vector<Clock*> all;
  {
    const std::lock_guard lists(guard);
    for (auto& [context, clock] : clocks()) all.push_back(&clock);
  }
  for (Clock* clock : all) look(*clock);
}

}  // namespace busbw::record

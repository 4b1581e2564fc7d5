// The timed region: nothing stands in it but the calls and what nccl-tests does between them.
#include "engine/measure/batch.h"

#include <algorithm>
#include <optional>

#include "engine/measure/statistics.h"

namespace busbw {
namespace {

// A group of the library while it lives.
class WorkGroup {
 public:
  explicit WorkGroup(Work& work) : work_(work) { work_.begin_group(); }
  ~WorkGroup() {
    if (open_) work_.abandon_group();
  }
  WorkGroup(const WorkGroup&) = delete;
  WorkGroup& operator=(const WorkGroup&) = delete;
  void end() {
    open_ = false;
    work_.end_group();
  }

 private:
  Work& work_;
  bool open_ = true;
};

// Bounds the waits of this thread while it lives, where anything does.
class BoundedWait {
 public:
  BoundedWait(const Timing& timing, const char* what) {
    if (timing.watchdog != nullptr) wait_.emplace(*timing.watchdog, timing.thread, what);
  }

 private:
  std::optional<Watchdog::Wait> wait_;
};

double seconds_since(Clock& clock, Seconds start) { return (clock.now() - start).count(); }

double calls_of(const Timing& timing, int iterations) {
  return static_cast<double>(iterations) * timing.plan.aggregated;
}

// Returns the seconds of the iterations alone under -z 3, else 0.
double iterate(const Timing& timing, int iterations, EventsOfStreams& events) {
  const Plan& plan = timing.plan;
  const bool outer = plan.blocking == Blocking::outer;
  const bool grouped = plan.aggregated > 1 && timing.work.groupable();
  const auto record = [&](int index) {
    for (auto& e : events) e->record(static_cast<std::size_t>(index));
  };
  double outer_seconds = 0;
  for (int i = 0; i < iterations; ++i) {
    // Read whether needed or not, as nccl-tests does: it takes as long as a hundredth of a short call's launch.
    const Seconds begin = timing.clock.now();
    std::optional<WorkGroup> group;
    if (grouped) group.emplace(timing.work);
    record(outer ? 2 * i : i);
    for (int a = 0; a < plan.aggregated; ++a) start_call(timing, i * plan.aggregated + a);
    if (group) group->end();
    if (!outer) continue;
    timing.work.complete(nullptr);
    record(2 * i + 1);
    outer_seconds += seconds_since(timing.clock, begin);
    timing.barrier.line_up();
  }
  if (!outer) record(iterations);
  return outer_seconds;
}

std::vector<double> iteration_times(const Plan& plan, EventsOfStreams& events, int iterations) {
  const bool pairs = plan.blocking == Blocking::outer;
  std::vector<double> times(static_cast<std::size_t>(iterations), 0.0);
  for (auto& e : events)
    for (std::size_t i = 0; i < times.size(); ++i) {
      const Seconds elapsed = pairs ? e->between(2 * i, 2 * i + 1) : e->between(i, i + 1);
      times[i] = std::max(times[i], microseconds(elapsed) / plan.aggregated);
    }
  return times;
}

}  // namespace

void start_call(const Timing& timing, int call) {
  timing.work.start(call);
  switch (timing.plan.blocking) {
    case Blocking::none:
    case Blocking::outer:
      return;
    case Blocking::wait_and_barrier:
      timing.work.complete(nullptr);
      return timing.barrier.line_up();
    case Blocking::wait:
      return timing.work.complete(nullptr);
  }
}

Batch run_batch(const Timing& timing, int iterations) {
  const bool outer = timing.plan.blocking == Blocking::outer;
  EventsOfStreams events;
  if (timing.plan.per_iteration)
    events = timing.work.make_events(static_cast<std::size_t>(outer ? 2 * iterations : iterations + 1));
  Batch batch;
  {
    const BoundedWait wait(timing, "the timed iterations");
    timing.barrier.line_up();
    const Seconds begin = timing.clock.now();
    const double outer_seconds = iterate(timing, iterations, events);
    const double calls = calls_of(timing, iterations);
    batch.launch = (outer ? outer_seconds : seconds_since(timing.clock, begin)) / calls;
    timing.work.complete("the timed iterations");
    batch.elapsed = (outer ? outer_seconds : seconds_since(timing.clock, begin)) / calls;
  }
  if (timing.plan.per_iteration) batch.iterations = iteration_times(timing.plan, events, iterations);
  return batch;
}

Graphs capture(const Timing& timing, int iterations, int aggregated) {
  const bool grouped = aggregated > 1 && timing.work.groupable();
  timing.work.begin_capture();
  for (int i = 0; i < iterations; ++i) {
    std::optional<WorkGroup> group;
    if (grouped) group.emplace(timing.work);
    // Without the waits of -z: a stream that is being captured cannot be waited for.
    for (int a = 0; a < aggregated; ++a) timing.work.start(i * aggregated + a);
    if (group) group->end();
  }
  Graphs graphs = timing.work.end_capture();
  for (const auto& graph : graphs) graph->instantiate();
  return graphs;
}

Batch run_graph_batch(const Timing& timing, const Graphs& graphs, int iterations, int launches) {
  const double calls = calls_of(timing, iterations);
  Batch batch;
  const BoundedWait wait(timing, "the graph launches");
  timing.barrier.line_up();
  const Seconds begin = timing.clock.now();
  for (int l = 0; l < launches; ++l)
    for (const auto& graph : graphs) graph->launch();
  // As nccl-tests counts: the time of all launches by the calls of one.
  batch.launch = seconds_since(timing.clock, begin) / calls;
  timing.work.complete("the graph launches");
  batch.elapsed = seconds_since(timing.clock, begin) / calls / launches;
  return batch;
}

double time_call(const Timing& timing) {
  timing.barrier.line_up();
  const Seconds begin = timing.clock.now();
  start_call(timing, 0);
  timing.work.complete("the first operation");
  return combine(timing.barrier.all_gather(seconds_since(timing.clock, begin)), Average::mean);
}

double add_batch(const Timing& timing, const Batch& batch, CaseResult& result) {
  const std::vector<double> by_thread = timing.barrier.all_gather(batch.elapsed);
  result.batches_us.resize(by_thread.size());
  for (std::size_t t = 0; t < by_thread.size(); ++t) result.batches_us[t].push_back(by_thread[t] * 1e6);
  return combine(by_thread, timing.plan.average);
}

}  // namespace busbw

// What timing needs of the world: a clock, a barrier, and work that is started and completes. Tests put fakes there.
#pragma once

#include <memory>
#include <vector>

#include "engine/core/plan.h"
#include "engine/measure/clock.h"
#include "engine/measure/watchdog.h"
#include "engine/platform/device.h"

namespace busbw {

// One thread among all threads of all processes of the job.
class Barrier {
 public:
  virtual ~Barrier() = default;
  virtual void wait() = 0;
  // The one behind which timing starts.
  virtual void line_up() = 0;
  // The number of every thread, by process, then thread. All threads get the same.
  virtual std::vector<double> all_gather(double mine) = 0;
};

using Graphs = std::vector<std::unique_ptr<Graph>>;
using EventsOfStreams = std::vector<std::unique_ptr<Events>>;

// Calls of one collective on the streams of this thread's ranks.
class Work {
 public:
  virtual ~Work() = default;
  // Enqueues one call. `call` counts from 0 and chooses the place in the buffers.
  virtual void start(int call) = 0;
  // Waits until everything that was started has completed. `what` stands in the sentence of a timeout.
  virtual void complete(const char* what) = 0;
  // Between these two, calls are one group of the library. `abandon_group` closes one that an exception left open.
  virtual void begin_group() = 0;
  virtual void end_group() = 0;
  virtual void abandon_group() noexcept = 0;
  // False where a call has steps that depend on each other: they lose their order inside a group.
  virtual bool groupable() const = 0;
  // `count` points in time on each stream.
  virtual EventsOfStreams make_events(std::size_t count) = 0;
  // Between these two, calls are recorded instead of run.
  virtual void begin_capture() = 0;
  virtual Graphs end_capture() = 0;
};

struct Timing {
  Clock& clock;
  Barrier& barrier;
  Work& work;
  const Plan& plan;
  Watchdog* watchdog = nullptr;  // bounds waits of `thread`; null: nothing does
  int thread = 0;                // of this process
};

}  // namespace busbw

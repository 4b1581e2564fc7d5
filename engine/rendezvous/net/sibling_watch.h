// Before all ranks have met: a stopped one is found among the children of their common parent, as nothing else can
// tell.
#pragma once

#include <optional>
#include <string>

#include "engine/platform/task_watch.h"
#include "engine/rendezvous/net/stopped_looks.h"

namespace busbw {

class SiblingWatch {
 public:
  // One that has ended is told at so many looks in a row: the first is for what it said itself, and whoever waits for
  // process 0 lets that tell it, where it can see it.
  explicit SiblingWatch(int looks_at_ended = 2) : looks_at_ended_(looks_at_ended) {}

  struct Stopped {
    int process = -1;  // -1: its launcher's number could not be read
    std::string sentence;
  };

  // Cheap to call often: looks at /proc twice a second. Names a sibling that stood still for two seconds on stderr, and
  // then kills it, so that its launcher can end. Also finds that one has ended.
  std::optional<Stopped> look(Clock::time_point now);

 private:
  Clock::time_point next_look_{};
  std::optional<Stopped> look_for_ended(Clock::time_point now);

  StoppedLooks looks_;
  TaskWatch tasks_;
  int pid_ = 0;
  int looks_at_ended_, saw_ended_ = 0;
};

// Says on stderr who is stopped, gives the launcher a moment to pass that on, and kills it: launchers end all ranks as
// soon as one was killed, and what is said after that may be lost. False where it is not stopped (any more) or not
// ours.
bool name_and_end_stopped(int pid, const std::string& who);

}  // namespace busbw

// Before all ranks have met: a stopped one is found among the children of their common parent, as nothing else can
// tell.
#pragma once

#include <optional>
#include <string>

#include "engine/rendezvous/net/socket.h"

namespace busbw {

class SiblingWatch {
 public:
  struct Stopped {
    int process = -1;  // -1: its launcher's number could not be read
    std::string sentence;
  };

  // Cheap to call often: looks at /proc twice a second. Names a sibling that stood still for two seconds, and kills it,
  // so that its launcher can end.
  std::optional<Stopped> look(Clock::time_point now);

 private:
  Clock::time_point next_look_{};
  Clock::time_point since_{};
  int pid_ = 0;
};

}  // namespace busbw

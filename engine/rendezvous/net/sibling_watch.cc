// Looking at siblings twice a second.
#include "engine/rendezvous/net/sibling_watch.h"

#include <cstdlib>

#include "engine/core/error.h"
#include "engine/platform/process.h"
#include "engine/rendezvous/limits.h"

namespace busbw {

std::optional<SiblingWatch::Stopped> SiblingWatch::look(Clock::time_point now) {
  if (now < next_look_) return std::nullopt;
  next_look_ = now + heartbeat_interval;
  const auto sibling = stopped_sibling();
  if (!sibling || sibling->pid != pid_) {
    pid_ = sibling ? sibling->pid : 0;
    since_ = now;
    return std::nullopt;
  }
  if (now - since_ < stopped_limit) return std::nullopt;
  const bool known = !sibling->rank.empty();
  end_stopped(sibling->pid);
  return Stopped{.process = known ? std::atoi(sibling->rank.c_str()) : -1,
                 .sentence = format("process %s (pid %d) was lost: it is stopped (SIGSTOP) and has not joined; it is "
                                    "killed so that the job can end",
                                    known ? sibling->rank.c_str() : "of this job", sibling->pid)};
}

}  // namespace busbw

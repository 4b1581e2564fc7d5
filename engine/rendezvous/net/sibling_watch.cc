// Looking at siblings twice a second.
#include "engine/rendezvous/net/sibling_watch.h"

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>

#include "engine/core/error.h"
#include "engine/platform/process.h"
#include "engine/rendezvous/limits.h"

namespace busbw {

std::optional<SiblingWatch::Stopped> SiblingWatch::look(Clock::time_point now) {
  if (now < next_look_) return std::nullopt;
  next_look_ = now + heartbeat_interval;
  if (auto ended = look_for_ended(now)) return ended;
  const auto sibling = stopped_sibling();
  const int pid = sibling ? sibling->pid : 0;
  if (pid != std::exchange(pid_, pid)) looks_ = StoppedLooks();
  if (!looks_.add(sibling.has_value(), now)) return std::nullopt;
  const bool known = !sibling->rank.empty();
  const std::string who = format("process %s (pid %d)", known ? sibling->rank.c_str() : "of this job", pid);
  name_and_end_stopped(pid, who);
  return Stopped{.process = known ? std::atoi(sibling->rank.c_str()) : -1,
                 .sentence = who + " was lost: it was stopped (SIGSTOP) before it joined"};
}

std::optional<SiblingWatch::Stopped> SiblingWatch::look_for_ended(Clock::time_point now) {
  constexpr const char* how = " was lost: it ended before all had come; look at its own messages";
  std::optional<Stopped> found;
  if (const auto lost = tasks_.look(now)) {
    found = Stopped{.process = lost->process, .sentence = lost->who + how};
  } else if (const auto ended = ended_task()) {
    found = Stopped{.process = -1,
                    .sentence = "a process of this job" + (*ended == 0 ? "" : format(" (pid %d)", *ended)) + how};
  }
  return found && ++saw_ended_ >= looks_at_ended_ ? found : std::nullopt;
}

bool name_and_end_stopped(int pid, const std::string& who) {
  if (!is_stopped_of_ours(pid)) return false;
  std::fprintf(stderr, "busbw: %s is stopped (SIGSTOP); it is killed so that the job can end\n", who.c_str());
  std::this_thread::sleep_for(naming_pause);
  return end_stopped(pid);
}

}  // namespace busbw

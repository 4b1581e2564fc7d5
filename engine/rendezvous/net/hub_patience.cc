// What process 0's thread concludes from time alone: who does not come, who is silent, who is stopped.
#include <cstdio>

#include "engine/platform/process.h"
#include "engine/rendezvous/net/hub.h"

namespace busbw {

void Hub::tick(Clock::time_point now) {
  // A gap in our own turns (suspended, or starved of a core) says nothing about the others.
  const bool slept = now - last_turn_ > 3 * heartbeat_interval;
  last_turn_ = now;
  for (Guest& guest : guests_) {
    if (slept) guest.connection.pretend_heard(now);
    if (guest.state != State::member && !guest.dropped && !guest.own &&
        now - guest.connection.opened() > options_.greeting_limit) {
      drop_stranger(guest, guest.connection.silent() ? Stranger::silent : Stranger::unfinished);
      notice_once("slow", "Process 0's port was called by a stranger, which was dropped: it did not introduce itself");
    }
  }
  if (started_) {
    if (now >= next_beat_) beat(now, slept);
  } else if (!failure_ && now >= options_.join_deadline) {
    give_up_waiting();
  } else if (const auto stopped = failure_ ? std::nullopt : siblings_.look(now)) {
    fail({.process = stopped->process, .code = ExitCode::internal, .sentence = stopped->sentence});
  }
}

void Hub::beat(Clock::time_point now, bool slept) {
  next_beat_ = now + heartbeat_interval;
  for (Guest& guest : guests_) {
    if (guest.state != State::member || guest.dropped) continue;
    if (!guest.connection.sending()) guest.connection.send(encode(FrameKind::heartbeat));
    if (guest.left) continue;
    const auto silence = now - guest.connection.heard();
    const bool late = silence > late_limit || slept || guest.stopped.pending();
    const bool stopped = guest.stopped.add(
        late && guest.member.host_identity == host_identity_ && stat_of(static_cast<int>(guest.member.pid)).stopped(),
        now);
    if (!stopped && silence <= silence_limit) continue;
    guest.left = true;  // said once
    const std::string how =
        stopped ? "it is stopped (SIGSTOP)" : format("no sign of life for %ld s", long{silence_limit.count()});
    fail({.process = guest.member.process,
          .code = ExitCode::internal,
          .sentence = describe(guest.member) + " was lost: " + how});
  }
}

void Hub::give_up_waiting() { fail({.process = -1, .code = ExitCode::timeout, .sentence = missing_sentence()}); }

std::string Hub::missing_sentence() const {
  std::set<int> came;
  std::set<std::string> hosts;
  for (const Guest& guest : guests_) {
    if (guest.state != State::member) continue;
    came.insert(guest.member.process);
    hosts.insert(guest.member.host.substr(0, guest.member.host.find('.')));
  }
  std::string names, silent_hosts;
  int missing = 0;
  for (int process = 0; process < options_.processes; ++process) {
    if (came.contains(process) || ++missing > 8) continue;
    names += (names.empty() ? "" : ", ") + std::to_string(process);
  }
  for (const std::string& host : options_.hosts) {
    if (!hosts.contains(host.substr(0, host.find('.')))) silent_hosts += (silent_hosts.empty() ? "" : ", ") + host;
  }
  std::string sentence = format("%d of %d processes did not come within %g s: %s %s%s", missing, options_.processes,
                                static_cast<double>(options_.join_limit.count()) / 1e3,
                                missing == 1 ? "process" : "processes", names.c_str(), missing > 8 ? " and more" : "");
  if (!silent_hosts.empty()) sentence += "; nobody came from host " + silent_hosts;
  if (!last_notice_.empty()) sentence += "; " + last_notice_;
  if (const std::string refused = sentence_of(strangers()); !refused.empty()) sentence += "; " + refused;
  return sentence + "; look at their own messages, or raise BUSBW_JOIN_TIMEOUT";
}

}  // namespace busbw

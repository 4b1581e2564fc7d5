// A client of PMI-1.
#include "engine/rendezvous/join/pmi1.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "engine/rendezvous/limits.h"

namespace busbw {
namespace {

// "cmd=get_result rc=0 value=x": the text of one field.
std::string field(std::string_view line, std::string_view name) {
  const std::string wanted = std::string(name) + "=";
  for (std::size_t start = 0; start < line.size();) {
    const std::size_t end = std::min(line.find(' ', start), line.size());
    const std::string_view word = line.substr(start, end - start);
    if (word.starts_with(wanted)) return std::string(word.substr(wanted.size()));
    start = end + 1;
  }
  return "";
}

[[noreturn]] void pmi_failed(const std::string& why) {
  throw Error(ExitCode::bad_arguments,
              "The processes cannot find each other through mpiexec (" + why +
                  "); start busbw by mpiexec itself, or set BUSBW_ADDRESS=host:port of process 0 and BUSBW_SECRET");
}

}  // namespace

Pmi1::Pmi1(int descriptor, Clock::time_point deadline) : descriptor_(descriptor), deadline_(deadline) {
  ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init");
  space_ = field(ask("cmd=get_my_kvsname", "my_kvsname"), "kvsname");
}

Pmi1::~Pmi1() {
  try {
    ask("cmd=finalize", "finalize_ack");
  } catch (const Error&) {
    // The server is gone; nobody is left to be told.
  }
}

void Pmi1::put(std::string_view key, std::string_view value) {
  ask("cmd=put kvsname=" + space_ + " key=" + std::string(key) + " value=" + std::string(value), "put_result");
}

void Pmi1::barrier() { ask("cmd=barrier_in", "barrier_out"); }

std::string Pmi1::get(std::string_view key) {
  return field(ask("cmd=get kvsname=" + space_ + " key=" + std::string(key), "get_result"), "value");
}

std::string Pmi1::ask(const std::string& command, std::string_view answer) {
  const std::string line = command + "\n";
  if (write(descriptor_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    pmi_failed("PMI_FD is not open in this process: a wrapper closed it");
  }
  for (;;) {
    if (const std::size_t end = pending_.find('\n'); end != std::string::npos) {
      const std::string reply = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      const std::string code = field(reply, "rc");
      if (field(reply, "cmd") != answer || (!code.empty() && code != "0")) pmi_failed("it answered '" + reply + "'");
      return reply;
    }
    char buffer[2048];
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
    pollfd waiting{.fd = descriptor_, .events = POLLIN, .revents = 0};
    const int ready = poll(&waiting, 1, static_cast<int>(std::clamp<long>(left, 0, heartbeat_interval.count())));
    if (ready == 0 && Clock::now() >= deadline_) pmi_failed("a process did not come to the meeting in time");
    if (ready == 0)
      if (const auto stopped = siblings_.look(Clock::now())) throw Error(ExitCode::internal, stopped->sentence);
    if (ready <= 0) continue;
    const ssize_t count = read(descriptor_, buffer, sizeof buffer);
    if (count <= 0 && errno != EINTR && errno != EAGAIN) pmi_failed("mpiexec closed the connection");
    if (count > 0) pending_.append(buffer, static_cast<std::size_t>(count));
    if (pending_.size() > 65536) pmi_failed("its answer has no end");
  }
}

}  // namespace busbw

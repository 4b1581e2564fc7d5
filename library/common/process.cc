// Process identity and liveness from /proc.
#include "library/common/process.h"

#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <mutex>
#include <sstream>

#include "busbw/other_threads.h"
#include "library/common/failure.h"

namespace busbw {
namespace {

struct ProcStat {
  bool found = false;
  char state = '?';
  std::uint64_t start_time = 0;
};

// The command name may hold spaces, brackets and ends of lines, so the fields are counted from the last bracket of all.
ProcStat read_stat(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto bracket = text.rfind(')');
  if (bracket == std::string::npos) return {};
  std::istringstream fields(text.substr(bracket + 1));
  ProcStat stat{.found = true};
  fields >> stat.state;
  std::string skipped;
  for (int field = 4; field < 22; ++field) fields >> skipped;
  fields >> stat.start_time;
  return stat;
}

ProcessIdentity identify() {
  ProcessIdentity me{};
  me.pid = ::getpid();
  me.uid = ::geteuid();
  me.start_time = read_stat(me.pid).start_time;
  struct stat ns{};
  if (::stat("/proc/self/ns/pid", &ns) == 0) me.pid_namespace = ns.st_ino;
  fill_random(&me.token, sizeof me.token);
  return me;
}

}  // namespace

ProcessIdentity this_process() {
  static std::mutex guard;
  static ProcessIdentity me{};
  const std::lock_guard lock(guard);
  // A forked child is another process with a copy of this memory.
  if (me.pid != ::getpid()) me = identify();
  return me;
}

Life life_of(const ProcessIdentity& process) {
  const ProcessIdentity me = this_process();
  if (same_process(process, me)) return Life::alive;
  if (process.start_time == 0 || process.pid_namespace != me.pid_namespace) return Life::unknown;
  const ProcStat stat = read_stat(process.pid);
  const bool zombie = stat.state == 'Z' && state_of_other_threads(process.pid) == thread_ended;
  const bool ended = !stat.found || stat.start_time != process.start_time || zombie || stat.state == 'X';
  return ended ? Life::ended : Life::alive;
}

CpuSet cpus_of_this_thread() {
  CpuSet set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) CPU_SET(0, &set);
  return set;
}

std::string host_name() {
  char name[256] = "unknown host";
  ::gethostname(name, sizeof name - 1);
  return name;
}

std::uint64_t boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string line;
  return std::getline(file, line) ? std::hash<std::string>{}(line) : 0;
}

void fill_random(void* to, std::size_t bytes) {
  auto* out = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = ::getrandom(out, bytes, 0);
    if (got < 0 && errno != EINTR) {
      throw Failure(ncclSystemError,
                    text("The kernel gives no random bytes for a communicator's name: %s.", std::strerror(errno)));
    }
    if (got > 0) {
      out += got;
      bytes -= std::size_t(got);
    }
  }
}

}  // namespace busbw

// Watching ancestors by pidfd, and the signals that come before anybody else handles them.
#include "engine/platform/lifeline.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <span>
#include <sstream>
#include <thread>

#include "engine/platform/deaf_proxy.h"
#include "engine/platform/first_line.h"
#include "engine/platform/process.h"

namespace busbw {
namespace {

constexpr int look_every_ms = 500;         // without pidfds
constexpr std::chrono::seconds to_end{6};  // for the action, before the process is ended: all must be gone within 10 s
constexpr int interrupted_code = 130;      // ExitCode::interrupted
constexpr std::size_t longest_ancestry = 16;  // wrappers and shells
constexpr std::size_t most_named = 8;         // in BUSBW_PARENT

// Launchers that start ranks as process 1 of a container; any other process 1 adopts orphans.
constexpr std::string_view launchers_as_init[] = {"mpirun",  "mpiexec", "orterun",    "orted",  "prterun",
                                                  "prted",   "hydra",   "slurmstepd", "python", "torchrun",
                                                  "pt_main", "busbw",   "pt_elastic"};

// What a person starts in a shell and waits for.
constexpr std::string_view launchers_in_foreground[] = {"mpirun",   "mpiexec", "orterun", "prterun",
                                                        "torchrun", "python",  "pt_",     "busbw"};

// What never had a shell above, or was made to outlive it: daemons that start ranks, and what adopts or keeps programs.
constexpr std::string_view daemons[] = {
    "slurmstepd",  "slurmd",      "orted",  "prted",     "prte",   "hydra",   "pmi",     "sge_",   "shepherd",
    "flux",        "pbs_",        "condor", "pals",      "apinit", "sshd",    "systemd", "tini",   "dumb-init",
    "docker-init", "containerd",  "conmon", "crond",     "cron",   "atd",     "screen",  "SCREEN", "tmux",
    "dtach",       "supervisord", "init",   "catatonit", "raylet", "kubelet", "runc",    "crun",   "s6-"};

// BUSBW_RANK is left out: `busbw run` names itself in BUSBW_PARENT.
bool is_rank_of_launcher(int pid) {
  return std::any_of(rank_variables().begin(), rank_variables().end(), [&](const std::string& name) {
    return name != "BUSBW_RANK" && (pid == getpid() ? std::getenv(name.c_str()) != nullptr : !!variable_of(pid, name));
  });
}

bool is_one_of(std::span<const std::string_view> names, const std::string& command) {
  return std::any_of(names.begin(), names.end(), [&](std::string_view name) { return command.starts_with(name); });
}

bool starts_ranks(const std::string& command) { return is_one_of(launchers_as_init, command); }
bool is_ours(int pid) {
  struct stat found{};
  return stat(("/proc/" + std::to_string(pid)).c_str(), &found) == 0 && found.st_uid == geteuid();
}
bool waits_in_foreground(const std::string& command) { return is_one_of(launchers_in_foreground, command); }

// How long that process had lived when this one began.
std::chrono::seconds head_start(int pid) {
  const unsigned long long theirs = stat_of(pid).start, ours = stat_of(getpid()).start;
  const auto ticks = static_cast<unsigned long long>(std::max(sysconf(_SC_CLK_TCK), 1L));
  return std::chrono::seconds(ours > theirs ? (ours - theirs) / ticks : 0);
}

// Whom to watch, and the reason to end at once where somebody has gone already.
struct Ancestry {
  std::vector<Ancestor> living;
  int parent = 0;  // whose child this process has to stay; 0: anybody's
  std::string gone;

  bool add(const Ancestor& ancestor) {
    if (ancestor.start == 0) return false;
    if (std::find(living.begin(), living.end(), ancestor) == living.end()) living.push_back(ancestor);
    return true;
  }
};

// From this process upwards, to the leader of its session: all of them were waiting for us, unless one was told to
// outlive those above it.
void climb_session(int pid, Ancestry& ancestry) {
  const int session = stat_of(pid).session;
  int below = 0;
  for (std::size_t step = 0; step < longest_ancestry && pid > 1; ++step) {
    const ProcessStat stat = stat_of(pid);
    if (stat.session != session || !ancestry.add({pid, stat.start})) break;
    if (pid == session || ignores_hangup(pid)) return;
    below = pid;
    pid = stat.parent;
  }
  // The topmost one's parent has gone, and so has the leader of its session: its shell was killed while it started. A
  // launcher that is a daemon by nature (slurmstepd, orted) always looks so.
  if (below != 0 && session > 1 && !stat_of(session).lives() &&
      had_a_shell(command_of(below), is_ours(below), head_start(below)))
    ancestry.gone = "the shell or program that started this measurement has ended; nohup lets it go on";
}

// Nobody is above this process but who adopts orphans, and the leader of its session has gone before it could be
// watched. A daemon's child has the daemon above it.
bool is_orphan() {
  const int session = getsid(0);
  const ProcessStat parent = stat_of(getppid());
  return parent.session != session && session > 1 && session != getpid() && !stat_of(session).lives();
}

// A process is born in its parent's session and leaves it only to lead one of its own. Another parent than that is one
// that adopts orphans, as systemd, tini -s and a container's shim do for what is below them. A parent whose session's
// leader is outside of this PID namespace (kubectl exec, nsenter) is in session 0. A parent that left this session
// after it had started us still has somebody of it above.
bool is_adopted() {
  const int session = getsid(0);
  ProcessStat above = stat_of(getppid());
  if (session <= 0 || session == getpid() || above.start == 0) return false;
  for (std::size_t step = 0; step < longest_ancestry && above.start != 0; ++step) {
    if (above.session == session) return false;
    above = above.parent > 0 ? stat_of(above.parent) : ProcessStat{};
  }
  return true;
}

// The launcher of a rank: the wrappers in between carry the launcher's variables too.
int find_launcher(Ancestry& ancestry) {
  int pid = getppid();
  // Process 1 of a container may have got the launcher's variables from without (Kubernetes), and starts the rank
  // itself.
  const bool by_first = pid == 1 && (starts_ranks(command_of(1)) || is_rank_of_launcher(1));
  // A launcher that was killed a moment ago is a zombie for as long as its last thread takes to end.
  if ((pid == 1 && !by_first) || is_adopted() || stat_of(pid).state == 'Z')
    ancestry.gone = "the launcher that started this rank has ended";
  for (std::size_t step = 0; step < longest_ancestry && pid > 1; ++step) {
    const ProcessStat stat = stat_of(pid);
    if (!ancestry.add({pid, stat.start}) || !is_rank_of_launcher(pid)) break;
    pid = stat.parent;
  }
  // Hydra's proxy has a session of its own; on the host of its mpiexec that one is right above it.
  const int above = stat_of(pid).parent;
  if (command_of(pid).starts_with("hydra") && waits_in_foreground(command_of(above))) return above;
  return pid;
}

Ancestry find_ancestry() {
  Ancestry ancestry;
  char space[64] = "";
  const ssize_t length = readlink("/proc/self/ns/pid", space, sizeof space - 1);
  const std::string pid_namespace(space, length > 0 ? static_cast<std::size_t>(length) : 0);
  if (const char* named = std::getenv("BUSBW_PARENT")) {
    for (const Ancestor& ancestor : read_parents(named, first_line("/proc/sys/kernel/random/boot_id"), pid_namespace)) {
      ancestry.living.push_back(ancestor);
      if (has_ended(ancestor.pid, ancestor.start))
        ancestry.gone = "the busbw that started this rank has ended";
      else
        climb_session(ancestor.pid, ancestry);
    }
  }
  const int parent = getppid();
  const bool rank = is_rank_of_launcher(getpid());
  if (rank) {
    climb_session(find_launcher(ancestry), ancestry);
  } else if (ancestry.living.empty() && !ignores_hangup(getpid()) && getsid(0) != getpid()) {
    climb_session(getppid(), ancestry);
    if (ancestry.living.empty() && is_orphan())
      ancestry.gone = "the shell or program that started this measurement has ended; nohup lets it go on";
  }
  if (rank || std::any_of(ancestry.living.begin(), ancestry.living.end(),
                          [&](const Ancestor& ancestor) { return ancestor.pid == parent; }))
    ancestry.parent = parent;
  return ancestry;
}

char file_at_end[256] = "";
std::atomic<bool> file_is_set{false};

void remove_file_at_end() {
  if (file_is_set.load(std::memory_order_acquire)) unlink(file_at_end);
}

// Whoever started this process may have blocked them, and would have us run for ever.
void take_signals() {
  sigset_t ours;
  sigemptyset(&ours);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGCONT}) sigaddset(&ours, number);
  pthread_sigmask(SIG_UNBLOCK, &ours, nullptr);
}

// To be woken when the parent's thread ends. A signal that the parent asked for (unshare --kill-child) stays. A parent
// outside of this PID namespace cannot be watched by its number: there the signal itself ends us.
void ask_for_signal_of_parent() {
  int asked_for = 0;
  if (prctl(PR_GET_PDEATHSIG, &asked_for) == 0 && asked_for != 0 && asked_for != SIGCONT) return;
  prctl(PR_SET_PDEATHSIG, getppid() == 0 && !ignores_hangup(getpid()) ? SIGTERM : SIGCONT);
}

void catch_early_signals() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before{};
    sigaction(number, nullptr, &before);
    if (before.sa_handler == SIG_IGN) continue;
    struct sigaction action{};
    action.sa_handler = lifeline::end_by_signal;
    sigaction(number, &action, nullptr);
  }
}

struct State {
  std::mutex guard;
  std::function<void(const std::string&)> action;
};

// Never destroyed: the thread that uses it runs until the process ends.
State& state() {
  static State* const instance = new State;
  return *instance;
}

[[noreturn]] void end_now(const std::string& sentence) {
  const std::string line = "busbw: " + sentence + "\n";
  [[maybe_unused]] const ssize_t ignored = write(STDERR_FILENO, line.data(), line.size());
  remove_file_at_end();
  _exit(interrupted_code);
}

[[noreturn]] void cut_off(const std::string& sentence) {
  {
    const std::lock_guard lock(state().guard);
    if (!state().action) end_now(sentence);
    state().action(sentence);
  }
  std::this_thread::sleep_for(to_end);
  remove_file_at_end();
  _exit(interrupted_code);
}

std::string ended(const Ancestor& ancestor) {
  return "process " + std::to_string(ancestor.pid) +
         ", which started this measurement, has ended, and the measurement with it; nohup lets it go on";
}

// A parent that may not be looked at (another user's, where /proc hides those) has ended when we are another's child.
void watch(const std::vector<Ancestor>& ancestors, int parent) {
  std::vector<pollfd> waiting;
  bool all_by_descriptor = parent == 0;
  for (const Ancestor& ancestor : ancestors) {
    if (ancestor.pid == parent) all_by_descriptor = true;
  }
  for (const Ancestor& ancestor : ancestors) {
    const int descriptor = static_cast<int>(syscall(SYS_pidfd_open, ancestor.pid, 0));
    if (descriptor >= 0) fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    all_by_descriptor = all_by_descriptor && descriptor >= 0;
    waiting.push_back({.fd = descriptor, .events = POLLIN, .revents = 0});
  }
  DeafProxy proxy;
  for (;;) {
    if (proxy.found())
      cut_off("mpiexec was told to end while it started this rank: its proxy (pid " + std::to_string(proxy.pid()) +
              ") only waits for the ranks to end");
    for (const Ancestor& ancestor : ancestors)
      if (has_ended(ancestor.pid, ancestor.start)) cut_off(ended(ancestor));
    if (parent != 0 && getppid() != parent) cut_off(ended({.pid = parent}));
    // It takes no more descriptors than a process may have (ulimit -n), living or not.
    const bool sleeps = all_by_descriptor && !proxy.may_come();
    if (poll(waiting.data(), waiting.size(), sleeps ? -1 : look_every_ms) < 0 && errno != EINTR)
      std::this_thread::sleep_for(std::chrono::milliseconds(look_every_ms));
  }
}

}  // namespace

void open_standard_descriptors() noexcept {
  for (int number = 0; number <= 2; ++number) {
    if (fcntl(number, F_GETFD) >= 0) continue;
    // The lowest free number is this one, as those below it are open.
    const int opened = ::open("/dev/null", number == 0 ? O_RDONLY : O_WRONLY);
    if (opened >= 0 && opened != number) {
      dup2(opened, number);
      ::close(opened);
    }
  }
}

std::vector<Ancestor> read_parents(const std::string& text, const std::string& boot, const std::string& pid_namespace) {
  std::istringstream parts(text);
  std::string written_boot, written_namespace, list;
  if (!std::getline(parts, written_boot, '/') || !std::getline(parts, written_namespace, '/') ||
      !std::getline(parts, list) || written_boot.empty() || written_boot != boot || written_namespace != pid_namespace)
    return {};
  std::vector<Ancestor> found;
  std::istringstream entries(list);
  for (std::string entry; found.size() < most_named && std::getline(entries, entry, ',');) {
    Ancestor ancestor;
    if (std::sscanf(entry.c_str(), "%9d.%20llu", &ancestor.pid, &ancestor.start) != 2 || ancestor.pid < 2) return {};
    found.push_back(ancestor);
  }
  return found;
}

bool had_a_shell(const std::string& command, bool ours, std::chrono::seconds head_start) {
  constexpr std::chrono::minutes launcher{10};  // may import for so long before it starts a rank
  constexpr std::chrono::seconds wrapper{10};
  if (waits_in_foreground(command)) return head_start < launcher;
  const bool changes_users = command == "sudo" || command == "su";
  return (ours || changes_users) && !is_one_of(daemons, command) && head_start < wrapper;
}

namespace lifeline {

void hold() {
  ask_for_signal_of_parent();
  catch_early_signals();
  take_signals();
  remember_tasks();
  const Ancestry ancestry = find_ancestry();
  if (!ancestry.gone.empty()) end_now(ancestry.gone);
  if (ancestry.living.empty() && ancestry.parent == 0) return;
  // Signals are for the program's own threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  std::thread([ancestors = ancestry.living, parent = ancestry.parent] { watch(ancestors, parent); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void on_cut(std::function<void(const std::string& sentence)> action) {
  const std::lock_guard lock(state().guard);
  state().action = std::move(action);
}

void end_by_signal(int number) {
  remove_file_at_end();
  signal(number, SIG_DFL);
  // It is blocked while it is handled. A shell stops a loop only where a program has ended by Ctrl-C itself.
  sigset_t ours;
  sigemptyset(&ours);
  sigaddset(&ours, number);
  pthread_sigmask(SIG_UNBLOCK, &ours, nullptr);
  raise(number);
  _exit(128 + number);  // process 1 of a container is not ended by what it raises
}

void forget_file_at_end(const std::string& path) {
  file_is_set.store(false, std::memory_order_release);
  if (path.empty() || path.size() >= sizeof file_at_end) return;
  std::memcpy(file_at_end, path.c_str(), path.size() + 1);
  file_is_set.store(true, std::memory_order_release);
}

}  // namespace lifeline
}  // namespace busbw

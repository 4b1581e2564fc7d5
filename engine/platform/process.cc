// Reading /proc/PID.
#include "engine/platform/process.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>

#include "busbw/other_threads.h"
#include "engine/platform/first_line.h"

namespace busbw {
namespace {

constexpr std::size_t most_environment = 4u << 20;

std::string folder_of(int pid) { return "/proc/" + std::to_string(pid) + "/"; }

std::string program_of(const std::string& folder) {
  char path[4096] = "";
  const ssize_t length = readlink((folder + "exe").c_str(), path, sizeof path - 1);
  return std::string(path, length > 0 ? static_cast<std::size_t>(length) : 0);
}

bool runs_this_program(int pid) {
  const std::string mine = program_of("/proc/self/");
  return !mine.empty() && program_of(folder_of(pid)) == mine;
}

// The children of this process's parent; without this one where the kernel does not tell.
std::vector<int> children_of_parent() {
  std::vector<int> found;
  std::error_code error;
  const int parent = getppid();
  if (parent < 2) return found;
  for (const auto& thread : std::filesystem::directory_iterator(folder_of(parent) + "task", error)) {
    std::ifstream children(thread.path() / "children");
    for (int pid = 0; children >> pid;) found.push_back(pid);
  }
  return found;
}

std::vector<int> siblings() {
  std::vector<int> found = children_of_parent();
  std::erase(found, getpid());
  return found;
}

// Written once, before there are threads.
std::vector<std::pair<int, unsigned long long>> tasks_beside;
bool task_is_missing = false;

// SLURM_GTIDS lists the tasks of this host. All are there before the first of them runs.
bool some_have_ended(std::size_t there) {
  const char* const listed = std::getenv("SLURM_GTIDS");
  if (listed == nullptr || *listed == '\0') return false;
  const std::string_view text = listed;
  return there < static_cast<std::size_t>(std::count(text.begin(), text.end(), ',')) + 1;
}

}  // namespace

ProcessStat stat_of(int pid) {
  const std::string line = first_line(folder_of(pid) + "stat");
  // The command name may hold spaces and brackets, so the fields are counted from the last bracket.
  const auto bracket = line.rfind(')');
  if (bracket == std::string::npos) return {};
  std::istringstream fields(line.substr(bracket + 1));
  ProcessStat stat;
  std::string skipped;
  fields >> stat.state >> stat.parent >> skipped >> stat.session;
  for (int field = 7; field < 22; ++field) fields >> skipped;
  fields >> stat.start;
  if (stat.state == 'Z') stat.state = state_of_other_threads(pid);
  if (stat.state == 'Z' || stat.state == 'X') stat.start = 0;
  return stat;
}

bool ignores_hangup(int pid) {
  std::ifstream file(folder_of(pid) + "status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("SigIgn:")) return (std::strtoull(line.c_str() + 7, nullptr, 16) >> (SIGHUP - 1) & 1) != 0;
  return false;
}

bool waits_for_a_child(int pid) {
  std::error_code none;
  std::filesystem::directory_iterator threads(folder_of(pid) + "task", none);
  return !none && std::distance(begin(threads), end(threads)) == 1 && stat_of(pid).state == 'S' &&
         first_line(folder_of(pid) + "wchan").starts_with("do_wait");
}

std::string command_of(int pid) { return first_line(folder_of(pid) + "comm"); }

std::optional<std::string> variable_of(int pid, const std::string& name) {
  std::ifstream file(folder_of(pid) + "environ", std::ios::binary);
  std::size_t read = 0;
  for (std::string entry; read < most_environment && std::getline(file, entry, '\0'); read += entry.size() + 1)
    if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
  return std::nullopt;
}

const std::vector<std::string>& rank_variables() {
  static const std::vector<std::string> names{"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                              "SLURM_PROCID",         "RANK",      "BUSBW_RANK"};
  return names;
}

bool has_ended(int pid, unsigned long long start) {
  const ProcessStat stat = stat_of(pid);
  if (stat.lives()) return stat.start != start;
  return stat.state == 'Z' || (kill(pid, 0) != 0 && errno == ESRCH);
}

bool is_stopped_of_ours(int pid) { return pid > 1 && stat_of(pid).stopped() && runs_this_program(pid); }

bool end_stopped(int pid) { return is_stopped_of_ours(pid) && kill(pid, SIGKILL) == 0; }

std::optional<StoppedSibling> stopped_sibling() {
  for (const int pid : siblings()) {
    if (!is_stopped_of_ours(pid)) continue;
    StoppedSibling found{.pid = pid, .rank = ""};
    for (const std::string& name : rank_variables())
      if (const auto rank = variable_of(pid, name); rank && found.rank.empty()) found.rank = *rank;
    return found;
  }
  return std::nullopt;
}

void remember_tasks(std::string_view launcher) {
  tasks_beside.clear();
  task_is_missing = false;
  if (std::getenv("SLURM_PROCID") == nullptr || std::getenv("BUSBW_RANK") != nullptr) return;
  if (!command_of(getppid()).starts_with(launcher)) return;
  const std::vector<int> tasks = children_of_parent();
  const bool told = std::find(tasks.begin(), tasks.end(), getpid()) != tasks.end();
  task_is_missing = told && some_have_ended(tasks.size());
  for (const int pid : tasks)
    if (pid != getpid()) tasks_beside.emplace_back(pid, stat_of(pid).start);
}

std::optional<int> ended_task() {
  if (task_is_missing) return 0;
  for (const auto& [pid, start] : tasks_beside)
    if (has_ended(pid, start)) return pid;
  return std::nullopt;
}

}  // namespace busbw

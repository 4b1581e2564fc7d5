// Reading /proc for the children of a launcher.
#include "engine/platform/task_watch.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "engine/platform/process.h"

namespace busbw {
namespace {

using namespace std::chrono_literals;

constexpr auto most_for_start = 3s;  // between the first and the last rank that a launcher starts
constexpr int most_parents = 16;

// What numbers ranks, what says how many are on this host, and what only the launcher itself sets: who sets the other
// two by hand may start ranks whenever he likes.
struct Numbering {
  const char *rank, *local_size, *sign;
};
constexpr Numbering numberings[] = {
    {"BUSBW_RANK", "BUSBW_LOCAL_SIZE", "BUSBW_PARENT"},
    {"RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE"},
    {"PMI_RANK", "MPI_LOCALNRANKS", "PMI_FD"},
    {"SLURM_PROCID", nullptr, "SLURM_GTIDS"},
};

std::size_t local_size(const Numbering& numbering) {
  if (numbering.local_size == nullptr) {
    const std::string_view tasks = std::getenv(numbering.sign);
    return static_cast<std::size_t>(std::count(tasks.begin(), tasks.end(), ',')) + (tasks.empty() ? 0 : 1);
  }
  const char* const size = std::getenv(numbering.local_size);
  return size == nullptr ? 0 : std::strtoul(size, nullptr, 10);
}

// How far above this process the one is that does not have its rank, and its number.
std::pair<int, int> launcher_above(const char* rank_variable) {
  const std::string mine = std::getenv(rank_variable);
  int pid = getppid();
  for (int height = 0; height < most_parents && pid > 1; ++height, pid = stat_of(pid).parent)
    if (variable_of(pid, rank_variable) != mine) return {height, pid};
  return {most_parents, 0};
}

}  // namespace

TaskWatch::TaskWatch() {
  int least = most_parents;
  for (const Numbering& each : numberings) {
    if (std::getenv(each.rank) == nullptr || std::getenv(each.sign) == nullptr) continue;
    const auto [height, pid] = launcher_above(each.rank);
    if (pid < 2 || height >= least) continue;  // a launcher within another counts
    least = height;
    rank_variable_ = each.rank;
    launcher_ = pid;
    expected_ = local_size(each);
  }
}

bool TaskWatch::find(std::map<int, Task>& found) const {
  std::error_code error;
  bool all_told = false;
  const std::string folder = "/proc/" + std::to_string(launcher_) + "/task";
  for (const auto& thread : std::filesystem::directory_iterator(folder, error)) {
    std::ifstream children(thread.path() / "children");
    if (!children) return false;
    all_told = true;
    for (int pid = 0; children >> pid;) {
      const ProcessStat stat = stat_of(pid);
      if (!stat.lives()) continue;
      if (access(("/proc/" + std::to_string(pid) + "/environ").c_str(), R_OK) != 0) return false;
      if (const auto rank = variable_of(pid, rank_variable_)) found[pid] = {stat.start, *rank};
    }
  }
  return all_told && !error;
}

std::optional<TaskWatch::Lost> TaskWatch::look(Time now) {
  if (launcher_ == 0) return std::nullopt;
  for (const auto& [pid, task] : seen_) {
    if (!has_ended(pid, task.start)) continue;
    // Another one may have ended because it saw this first.
    return fewer_ != 0 && fewer_ < expected_
               ? missing()
               : Lost{.process = std::atoi(task.rank.c_str()),
                      .who = "process " + task.rank + " (pid " + std::to_string(pid) + ")"};
  }
  std::map<int, Task> found;
  const bool told = find(found);
  // This process is one of them, or below one: where it is not seen, the others are not either.
  if (!told || found.empty() || found.size() >= expected_ || found.size() != fewer_) {
    fewer_ = found.size();
    fewer_since_ = now;
  }
  seen_.merge(found);
  if (!told || fewer_ == 0 || fewer_ >= expected_ || now - *fewer_since_ < most_for_start) return std::nullopt;
  return missing();
}

TaskWatch::Lost TaskWatch::missing() const {
  const bool only_zero = fewer_ + 1 == expected_ && std::none_of(seen_.begin(), seen_.end(), [](const auto& each) {
                           return each.second.rank == "0";
                         });
  return Lost{.process = only_zero ? 0 : -1, .who = only_zero ? "process 0" : "a process of this host"};
}

}  // namespace busbw

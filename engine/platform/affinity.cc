// Affinity masks of any width, and the lists of processors in which the system names them.
#include "engine/platform/affinity.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <thread>

#include "engine/core/error.h"
#include "engine/core/ranges.h"
#include "engine/platform/first_line.h"

namespace busbw {
namespace {

// More than any machine has; the kernel says how many it knows by refusing less.
constexpr int most_processors = 1 << 14;

struct FreeSet {
  void operator()(cpu_set_t* set) const { CPU_FREE(set); }
};
using Set = std::unique_ptr<cpu_set_t, FreeSet>;
const std::size_t set_size = CPU_ALLOC_SIZE(most_processors);

Set empty_set() {
  Set set(CPU_ALLOC(most_processors));
  if (set) CPU_ZERO_S(set_size, set.get());
  return set;
}

// "0::/path" of version 2, or the line of the cpuset controller of version 1.
std::string group_of_this_process(const std::string& root) {
  std::ifstream file(root + "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("0::")) return root + "sys/fs/cgroup" + line.substr(3) + "/cpuset.cpus.effective";
    const std::size_t at = line.find(":cpuset:");
    if (at != line.npos) return root + "sys/fs/cgroup/cpuset" + line.substr(at + 8) + "/cpuset.effective_cpus";
  }
  return "";
}

}  // namespace

std::vector<int> allowed_cpus() {
  const Set set = empty_set();
  std::vector<int> cpus;
  if (!set || sched_getaffinity(0, set_size, set.get()) != 0) return cpus;
  for (int cpu = 0; cpu < most_processors; ++cpu)
    if (CPU_ISSET_S(static_cast<std::size_t>(cpu), set_size, set.get())) cpus.push_back(cpu);
  return cpus;
}

int usable_processors() {
  const std::vector<int> cpus = allowed_cpus();
  return cpus.empty() ? static_cast<int>(std::thread::hardware_concurrency()) : static_cast<int>(cpus.size());
}

std::vector<int> unbound_cpus(const std::string& root) {
  // Inside a container the path of the group is often not mounted, and the root is the container's own group.
  for (const std::string& file :
       {group_of_this_process(root), root + "sys/fs/cgroup/cpuset.cpus.effective",
        root + "sys/fs/cgroup/cpuset/cpuset.effective_cpus", root + "sys/devices/system/cpu/online"}) {
    std::vector<int> cpus = file.empty() ? std::vector<int>{} : cpus_of_list(first_line(file));
    if (!cpus.empty()) return cpus;
  }
  return {};
}

CpuChoice choose_cpus(const std::vector<int>& near, const std::vector<int>& allowed, const std::vector<int>& unbound,
                      int ranks_of_host) {
  if (near.empty()) return {};
  const bool bound = !std::includes(allowed.begin(), allowed.end(), unbound.begin(), unbound.end());
  if (bound) return {{}, format("the launcher has bound this process to processors %s", ranges(allowed).c_str())};
  CpuChoice choice;
  std::set_intersection(near.begin(), near.end(), allowed.begin(), allowed.end(), std::back_inserter(choice.cpus));
  if (choice.cpus.size() == allowed.size()) return {};  // the whole machine is near
  if (std::ssize(choice.cpus) >= 2 * ranks_of_host) return choice;
  return {{},
          format("only %zu of the processors near the GPU may be used here, for %d ranks", choice.cpus.size(),
                 ranks_of_host)};
}

bool bind_this_thread(const std::vector<int>& cpus) noexcept {
  const Set set = empty_set();
  if (!set) return false;
  for (const int cpu : cpus)
    if (cpu >= 0 && cpu < most_processors) CPU_SET_S(static_cast<std::size_t>(cpu), set_size, set.get());
  return sched_setaffinity(0, set_size, set.get()) == 0;
}

std::vector<int> cpus_of_list(const std::string& list) {
  std::vector<int> cpus;
  std::istringstream words(list);
  for (std::string word; std::getline(words, word, ',');) {
    char* rest = nullptr;
    const long first = std::strtol(word.c_str(), &rest, 10);
    if (rest == word.c_str() || first < 0) return {};
    const long last = *rest == '-' ? std::strtol(rest + 1, nullptr, 10) : first;
    for (long cpu = first; cpu <= last && cpu < most_processors; ++cpu) cpus.push_back(static_cast<int>(cpu));
  }
  return cpus;
}

}  // namespace busbw

// What /proc says of other processes of this machine: whether they live, stand still, and whose children they are.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace busbw {

struct ProcessStat {
  // As ps shows it: R, S, D, T (stopped), t (traced), Z, X; of another thread where the first one alone has ended.
  char state = 'X';
  int parent = 0;                // 0: outside of this PID namespace
  int session = 0;               // 0: outside of this PID namespace
  unsigned long long start = 0;  // clock ticks after boot; 0: no such process, or it has ended

  bool lives() const { return start != 0; }
  bool stopped() const { return state == 'T'; }
};

ProcessStat stat_of(int pid);
// Whether the process that began at this moment has ended. One of which /proc tells nothing lives as long as the kernel
// knows its number: descriptors may be short here, or /proc hidden.
bool has_ended(int pid, unsigned long long start);
bool ignores_hangup(int pid);
// Whether all that it does is to sleep until a child of it ends: it answers nobody. False where the kernel does not
// tell.
bool waits_for_a_child(int pid);
std::string command_of(int pid);  // at most 15 characters, as the kernel keeps them

// The value of a variable that this process was started with; nothing where it has none or may not be read.
std::optional<std::string> variable_of(int pid, const std::string& name);

// Names of the variables with which launchers number their ranks.
const std::vector<std::string>& rank_variables();

// Whether that is a stopped process that runs this same program.
bool is_stopped_of_ours(int pid);

// Ends a stopped process that runs this same program as this same user, so that its launcher can end as well; a stopped
// process hears no other signal. True where it did.
bool end_stopped(int pid);

// A child of this one's parent that runs this same program and is stopped.
struct StoppedSibling {
  int pid = 0;
  std::string rank;  // as its launcher counts; empty where unknown
};
std::optional<StoppedSibling> stopped_sibling();

// Slurm starts all tasks of a host before any of them runs, and does not end the others when one is killed. Call early:
// remembers the tasks beside this one, where the parent is `launcher` and Slurm alone numbers the ranks.
void remember_tasks(std::string_view launcher = "slurmstepd");
// The number of a remembered task that has ended; 0 where it had before it could be remembered.
std::optional<int> ended_task();

}  // namespace busbw

// Who a process is, whether it still lives, and which processors its threads may use.
#pragma once

#include <sched.h>

#include <cstdint>
#include <string>

namespace busbw {

using CpuSet = cpu_set_t;

// Enough to recognise a process for certain: a process id may be used again, its start time with it may not.
struct ProcessIdentity {
  std::int32_t pid;
  std::uint32_t uid;
  // Clock ticks after boot, from /proc; 0 where /proc does not tell.
  std::uint64_t start_time;
  // Processes in other PID namespaces cannot be looked up by their pid.
  std::uint64_t pid_namespace;
  // Random per process: equal only within one process, whatever the namespaces.
  std::uint64_t token;
};

ProcessIdentity this_process();
inline bool same_process(const ProcessIdentity& a, const ProcessIdentity& b) { return a.token == b.token; }

enum class Life { alive, ended, unknown };
// A zombie has ended: it will not answer any more.
Life life_of(const ProcessIdentity& process);

CpuSet cpus_of_this_thread();
std::string host_name();
// Equal for all processes of a host, containers included, until it is started anew; 0 where /proc does not tell.
std::uint64_t boot_id();
// Unpredictable bytes from the kernel.
void fill_random(void* to, std::size_t bytes);

}  // namespace busbw

// Stands before the system's calls for processor affinity and pretends a machine of 1024 processors. Tests only, by
// LD_PRELOAD.
//
// What a thread binds itself to is kept for that thread, and written to the file BUSBW_TEST_CPUS_LOG as one line of
// process, thread, first and last processor and their number.
#include <fcntl.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr std::size_t processors = 1024;
thread_local std::vector<std::size_t> bound_to;

void write_down() {
  const char* path = std::getenv("BUSBW_TEST_CPUS_LOG");
  const int file = path != nullptr ? open(path, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
  if (file < 0 || bound_to.empty()) return;
  dprintf(file, "%ld %ld %zu %zu %zu\n", static_cast<long>(getpid()), syscall(SYS_gettid), bound_to.front(),
          bound_to.back(), bound_to.size());
  close(file);
}

}  // namespace

EXPORT int sched_getaffinity(pid_t, std::size_t bytes, cpu_set_t* set) noexcept {
  CPU_ZERO_S(bytes, set);
  for (const std::size_t cpu : bound_to) CPU_SET_S(cpu, bytes, set);
  for (std::size_t cpu = 0; bound_to.empty() && cpu < processors; ++cpu) CPU_SET_S(cpu, bytes, set);
  return 0;
}

EXPORT int sched_setaffinity(pid_t, std::size_t bytes, const cpu_set_t* set) noexcept {
  bound_to.clear();
  for (std::size_t cpu = 0; cpu < processors; ++cpu)
    if (CPU_ISSET_S(cpu, bytes, set)) bound_to.push_back(cpu);
  write_down();
  return 0;
}

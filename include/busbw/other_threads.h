// Whether a process whose first thread has ended (a zombie in /proc) still lives by another thread.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace busbw {

inline constexpr char thread_ended = 'Z';

// What /proc/PID/task/TID/stat says of a thread: its state, 'Z' also where it is about to end. A process that was
// killed is a zombie too while its last threads end; they have SIGKILL pending or are marked by the kernel.
inline char state_of_thread(const std::string& stat) {
  constexpr unsigned long exiting = 0x4, signaled = 0x400;  // the kernel's PF_EXITING and PF_SIGNALED
  constexpr unsigned long killed = 1ul << 8;                // SIGKILL
  constexpr int flags_field = 6, pending_field = 28;        // counted from the state
  const auto bracket = stat.rfind(')');
  if (bracket == std::string::npos) return thread_ended;
  std::istringstream fields(stat.substr(bracket + 1));
  char state = thread_ended;
  fields >> state;
  unsigned long flags = 0, pending = 0;
  std::string word;
  for (int field = 1; field <= pending_field && fields >> word; ++field) {
    if (field == flags_field) flags = std::strtoul(word.c_str(), nullptr, 10);
    if (field == pending_field) pending = std::strtoul(word.c_str(), nullptr, 10);
  }
  const bool ends = state == 'X' || (flags & (exiting | signaled)) != 0 || (pending & killed) != 0;
  return ends ? thread_ended : state;
}

// The state of a thread that lives on, a running one before a stopped one; 'Z' where none does.
inline char state_of_other_threads(int pid) {
  constexpr int most = 4096;
  char found = thread_ended;
  std::error_code error;
  std::filesystem::directory_iterator task("/proc/" + std::to_string(pid) + "/task", error), end;
  for (int count = 0; !error && task != end && count < most; task.increment(error), ++count) {
    std::ifstream file(task->path() / "stat");
    std::string line;
    std::getline(file, line, '\0');
    const char state = state_of_thread(line);
    if (state == thread_ended) continue;
    found = state;
    if (state != 'T' && state != 't') break;
  }
  return found;
}

}  // namespace busbw

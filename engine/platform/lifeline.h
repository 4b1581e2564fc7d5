// Ends this process with those that started it, and makes sure that descriptors 0 to 2 are what everybody takes them
// for.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace busbw {

// A process by its number and its start (clock ticks after boot, field 22 of /proc/PID/stat): a number may be used
// again, its start with it may not.
struct Ancestor {
  int pid = 0;
  unsigned long long start = 0;
  friend bool operator==(const Ancestor&, const Ancestor&) = default;
};

// Opens what is closed of stdin, stdout and stderr on /dev/null, so that no file of ours gets one of their numbers and
// is written into by whoever prints. Call before anything else.
void open_standard_descriptors() noexcept;

// Reads BUSBW_PARENT, "BOOT/PIDNAMESPACE/PID.START,PID.START,...". Empty where it was written on another host or in
// another PID namespace, or cannot be read: its numbers mean nothing here.
std::vector<Ancestor> read_parents(const std::string& text, const std::string& boot, const std::string& pid_namespace);

// Whether a process whose parent and leader of its session have both gone, and which began that long before this one,
// lost them to a kill while it started. A daemon looks alike, but has a known name, is another user's (`ours`: this
// one's) or has lived for longer.
bool had_a_shell(const std::string& command, bool ours, std::chrono::seconds head_start);

// Watches the processes without which this one serves nobody: the launcher that made it a rank or the program that
// started it, those that BUSBW_PARENT names, and those above them up to the leader of their session. A process that was
// told to outlive its parents (SIGHUP ignored, as nohup does; leader of its own session, as setsid makes it) is
// watched, but nobody above it. One thread sleeps on pidfds (Linux 5.3) or, without them, looks twice a second.
// PR_SET_PDEATHSIG only wakes a stopped process (SIGCONT): it tells of the death of the starting thread, which need not
// be its process.
namespace lifeline {

void hold();

// What happens when one of them has ended; nullptr: a sentence on stderr and the end of this process with exit code
// 130, which also comes 6 s after any action.
void on_cut(std::function<void(const std::string& sentence)> action);

// A file to be removed where this process ends by SIGINT, SIGTERM, SIGHUP or its lifeline; empty: none. At most 255
// bytes; longer paths are left alone.
void forget_file_at_end(const std::string& path);

// Removes that file, then lets the signal do what it does to a process that does not handle it. For handlers.
[[noreturn]] void end_by_signal(int number);

}  // namespace lifeline
}  // namespace busbw

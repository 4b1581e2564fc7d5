// Memory that the processes of one host share: their barrier and their fast exchange of numbers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/rendezvous/net/socket.h"

namespace busbw {

// Owns the mapping. The first process of a host creates the area, the others open it by name and nonce. Its memory has
// no name in a file system, so that nothing stays behind however and whenever the processes end: others open it through
// /proc/PID/fd. Only where they cannot, as in containers that share /dev/shm but not their process numbers, a named
// file takes its place until all have it.
class HostArea {
 public:
  // Without a name: for a process that shares with nobody.
  HostArea(int local_processes, int processes);
  enum class Kind { unnamed, named };
  static HostArea create(Kind kind, int local_processes, int processes, std::string& name, const std::string& nonce);
  // Throws Error when there is no such area or it is another one.
  static HostArea open(int local_processes, int processes, const std::string& name, const std::string& nonce);
  // Of a named area; an unnamed one is left alone.
  static void remove_name(const std::string& name);
  // Once all have it: what others opened it through is closed.
  void close_door() { door_.close(); }

  HostArea(HostArea&& other) noexcept;
  HostArea& operator=(HostArea&& other) noexcept;
  ~HostArea();

  std::atomic<std::uint64_t>& released() { return line(0); }
  std::atomic<std::uint64_t>& arrived(int local) { return line(1 + local); }
  // Two sets, used in turn: a slow reader of one is not overtaken by the writers of the next.
  std::atomic<double>* numbers(std::uint64_t epoch);

 private:
  HostArea(int descriptor, int local_processes, int processes);
  std::atomic<std::uint64_t>& line(int index);
  static std::size_t bytes(int local_processes, int processes);

  int local_processes_ = 0, processes_ = 0;
  void* memory_ = nullptr;
  FileDescriptor door_;  // of an unnamed area, on the process that made it
};

// The barrier on such an area. Its waits call `poll`, which throws when a peer has failed or the wait is too long.
class HostBarrier {
 public:
  HostBarrier(HostArea area, int local, int local_processes);

  // Local process 0 runs `across_hosts` after all have arrived and before all are released.
  void meet(const std::function<void()>& across_hosts, const std::function<void()>& poll);
  // The numbers of this epoch, between two meetings: written before, read after.
  std::atomic<double>* next_numbers() { return area_.numbers(epoch_ + 1); }
  std::atomic<double>* last_numbers() { return area_.numbers(epoch_); }

 private:
  HostArea area_;
  int local_, local_processes_;
  std::uint64_t epoch_ = 0;
  bool crowded_;  // more processes than cores: give the core away at once
};

}  // namespace busbw

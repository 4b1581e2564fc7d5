// The ranks that one launcher started on this host, as its children: whether one of them has ended before all have met.
// Nothing else tells it where the launcher goes on (hydra, and every launcher after an exit code of 0).
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace busbw {

class TaskWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Reads which launcher numbers this process, and finds it among the parents. Without a known launcher it sees
  // nothing.
  TaskWatch();

  struct Lost {
    int process = -1;  // -1: unknown which
    std::string who;   // "process 0 (pid 7)"
  };
  // One that was there at an earlier look and has ended; or that fewer than the launcher started are there, for long.
  std::optional<Lost> look(Time now);

 private:
  Lost missing() const;
  struct Task {
    unsigned long long start = 0;
    std::string rank;
  };
  // The launcher's children that have a rank now; false where it cannot be told of one of them.
  bool find(std::map<int, Task>& found) const;

  std::string rank_variable_;
  int launcher_ = 0;          // 0: none
  std::size_t expected_ = 0;  // of this host; 0: unknown
  std::map<int, Task> seen_;
  std::optional<Time> fewer_since_;
  std::size_t fewer_ = 0;
};

}  // namespace busbw

// What BUSBW_CHECK=1 has seen in this process, and the line that says so when the process ends.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace busbw::gpu {

// From any thread, the driver's among them.
class Ledger {
 public:
  // Never destroyed: a check may still be on its way while the process ends.
  static Ledger& of_this_process();

  // From now on it counts, and prints its line when the process ends.
  void open();
  bool is_open() const { return open_; }

  // A call that NCCL does, for this reason.
  void hand_on(const std::string& reason);
  // A call that one of our kernels does. Each is told once more by one of the following, when that is known.
  void take();
  void skip(const std::string& reason);
  void agree(bool whole);
  // The first one is printed at once.
  void differ(const std::string& sentence);

  std::string summary() const;
  // Forgets all; for tests.
  void clear();

 private:
  using Reasons = std::map<std::string, std::uint64_t>;
  static void add(Reasons& reasons, const std::string& reason);
  static void print_at_end();
  bool complete() const;

  std::atomic<bool> open_{false};
  mutable std::mutex guard_;
  pid_t process_ = 0;  // a child of fork has nothing to say
  std::uint64_t taken_ = 0, agreed_ = 0, partly_ = 0, differed_ = 0, skipped_ = 0;
  Reasons handed_on_, not_checked_;
  std::string first_;
};

}  // namespace busbw::gpu

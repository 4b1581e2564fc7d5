// One symmetric window on its way to being reached by the peers, step by step (together.h): the ranks of an accelerated
// communicator tell each other what they have registered, open it, and exchange whether that worked.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "library/gpu/join/agreement.h"
#include "library/gpu/join/descriptor_post.h"
#include "library/gpu/join/exchange.h"
#include "library/gpu/join/window.h"
#include "library/gpu/run/communicator.h"

namespace busbw::gpu {

// What NCCL has registered.
struct NewWindow {
  ncclComm_t comm = nullptr;
  std::shared_ptr<Communicator> ours;
  void* memory = nullptr;
  std::size_t bytes = 0;
  ncclWindow_t handle = nullptr;
};

// One rank's, of fixed size.
struct WindowRecord {
  std::uint64_t process;  // random: equal only within one process
  std::uint64_t address;
  std::uint64_t bytes;
  RangeHandle range;
  PostAddress post;
  std::int32_t able;  // 0: for the reason below
  char reason[252];
};

class WindowOpening {
 public:
  // Throws a Failure if this rank cannot even take part in the exchange.
  explicit WindowOpening(NewWindow window);

  Exchange& records() { return *records_; }
  const WindowRecord& own_record() const { return record_; }
  void open_peers();
  void meet_peers(std::chrono::steady_clock::time_point deadline);
  Exchange& verdicts() { return *verdicts_; }
  const PeerVerdict& own_verdict() const { return verdict_; }

  void lose_records(const std::string& why) { refuse(records_lost_ = why); }
  void lose_verdicts(const std::string& why) { verdicts_lost_ = why; }
  bool knows_records() const { return records_lost_.empty() && healthy(); }
  bool knows_verdicts() const { return knows_records() && verdicts_lost_.empty(); }

  // Gives the window to its communicator if all ranks reach it. Where this rank does not know what the others have
  // decided, the communicator is poisoned.
  void conclude();

 private:
  void prepare();
  void refuse(const std::string& reason);
  const WindowRecord& of(int rank) const;
  bool healthy() const { return new_.ours->health().code() == ncclSuccess; }
  bool elsewhere(int rank) const { return rank != rank_ && of(rank).process != record_.process; }

  NewWindow new_;
  std::shared_ptr<Device> device_;
  int rank_;
  int ranks_;
  std::unique_ptr<Exchange> records_, verdicts_;
  WindowRecord record_{};
  PeerVerdict verdict_{};
  std::string records_lost_, verdicts_lost_;
  std::unique_ptr<Window> window_;
  std::unique_ptr<DescriptorPost> post_;
  Descriptor descriptor_;
};

// Windows that one thread has registered together. Throws nothing: a window that does not come about is left to NCCL.
void open_windows(const std::vector<NewWindow>& registered);

}  // namespace busbw::gpu

// The steps of the program as this rank sees them: how many calls one has, and how long blocks of a trial take.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "library/gpu/cuda/device.h"
#include "library/gpu/join/ballots.h"
#include "library/gpu/run/call.h"
#include "library/gpu/run/comparison.h"

namespace busbw::gpu {

// What a program has called lately.
class CallHistory {
 public:
  // Calls that it remembers; a step may have a third of them.
  static constexpr std::uint64_t most = 4096;
  CallHistory() : calls_(most) {}

  // Numbers rise; one that is left out was some other call.
  void add(std::uint64_t number, const Call& call);
  // All that was added: the program does something else now.
  void forget() { first_ = next_; }
  // Calls of a step of training: so many that what was called lately, for two steps and for most of what is known, was
  // called the same number of calls before. 0 where there is no such number.
  std::uint64_t period() const;

 private:
  struct Seen {
    std::uint64_t number = ~std::uint64_t{0};
    std::uint64_t shape = 0;   // what NCCL wants to be equal on all ranks
    std::uint64_t buffer = 0;  // of this rank
    bool completes = false;
  };
  template <class Same>
  std::uint64_t shortest(Same same) const;
  const Seen& at(std::uint64_t number) const { return calls_[number % most]; }
  bool completes_within(std::uint64_t calls) const;

  std::vector<Seen> calls_;
  std::uint64_t first_ = 0, next_ = 0;
};

// Of a call, what NCCL wants to be equal on all ranks.
std::uint64_t shape_of(const Call& call);

// Calls of a block: whole steps, two or more, and no fewer calls than tell something. 0 where steps have too many.
std::uint32_t block_of_steps(std::uint64_t calls_of_a_step);

// Thread-safe.
class OwnSteps {
 public:
  OwnSteps(std::shared_ptr<Device> device, Ballots& ballots, int rank, bool talks);
  ~OwnSteps();
  OwnSteps(const OwnSteps&) = delete;
  OwnSteps& operator=(const OwnSteps&) = delete;

  // Before it is decided on.
  void see(std::uint64_t number, const Call& call);
  // Whether calls that overlap with the program's work go our way: the ranks have voted so, and no trial says
  // otherwise.
  bool overlap(std::uint64_t number) const;

 private:
  // Of a trial that may begin; `again` as in Trial::Proposal.
  std::uint32_t next_block(bool again) const;
  void begin(const Trial::Plan& plan);
  void begin_block(std::size_t block, DeviceStream stream);
  void vote();
  void compare_later_block(DeviceStream stream);
  void forget_times() noexcept;

  std::shared_ptr<Device> device_;
  Ballots& ballots_;
  int rank_;
  bool talks_;
  std::mutex guard_;
  std::unique_ptr<CallHistory> history_;  // from the first call on that the ranks have voted for
  // Of the trial that goes on.
  Trial::Plan plan_;
  std::array<DeviceEvent, Trial::blocks> begins_{};
  std::array<std::uint64_t, Trial::blocks> shapes_{};  // of the calls of a block, one after the other
  bool captured_ = false;                              // a block began in a capture
  bool voted_ = false;
  // After it: what a block takes if the program does what it did, and whether it does not any more.
  double expected_ms_ = 0;
  std::array<DeviceEvent, 3> later_{};
  std::uint64_t later_blocks_ = 0;
  int unlike_ = 0;
  bool again_ = false;
  Comparison comparison_;  // of this trial and those that it goes on from
  bool done_ = false;
};

}  // namespace busbw::gpu

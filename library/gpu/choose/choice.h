// Which kernel does a request, if one of ours does it at all: forced by a person, from a table, or left to NCCL.
//
// Every rank decides for itself and all must decide alike, so a decision depends on nothing but what NCCL requires to
// be equal on all ranks (collective, type, op, count, number of ranks, and whether a buffer lies in a symmetric
// window), and on what the ranks have agreed on. Settings may differ between processes by mistake; fingerprint() lets
// the ranks find out when they meet.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "busbw/nccl_abi.h"
#include "library/gpu/choose/choice_table.h"
#include "library/gpu/choose/names.h"
#include "library/gpu/kernels/layout.h"

namespace busbw::gpu {

enum class Obstacle : std::uint8_t {
  none,
  nothing_to_do,
  no_kernel,
  type,
  op,
  ranks,
  too_long,
  too_short,
  no_window,
  shared_process,  // a process holds two or more of the ranks
  few_queues       // a rank's streams share fewer hardware queues than CUDA gives by default
};

struct Request {
  Collective collective;
  ncclDataType_t type;
  ncclRedOp_t op;
  std::uint64_t count;  // as in KernelArguments, but always in elements
  int ranks;
  bool window = false;               // the output lies in a window of the communicator, apart from the input
  bool copies_first = false;         // copy engines wherever they can do it (NCCL_CTA_POLICY_ZERO)
  bool beside_work = false;          // the ranks agree that the program computes beside such calls, as DDP and FSDP do
  bool in_windows = false;           // input and output lie in windows of the communicator
  Obstacle staged = Obstacle::none;  // what keeps all staged copies from these ranks
};

struct Choice {
  bool accelerated = false;
  Algorithm algorithm{};
  Protocol protocol{};
  int channels = 0;
  int threads = 0;
  std::string reason;  // why it goes to NCCL; empty if it does not
};

// How many channels a kernel may use for a request. Kernels split a vector evenly: of P packs, each of C channels gets
// floor(P/C) or one more, and of a channel's packs so does each of the ranks that shares them. `most` leaves every
// channel a warp's worth of packs, or is 1; fewer than `least` and a share does not fit into its scratch.
struct ChannelRange {
  int least = 0;
  int most = 0;
};

// What keeps a kernel from doing a request on this layout with any number of channels.
Obstacle obstacle(const KernelKind& kind, const Request& request, const Layout& layout);
inline bool applicable(const KernelKind& kind, const Request& request, const Layout& layout) {
  return obstacle(kind, request, layout) == Obstacle::none;
}

// Of an applicable kernel.
ChannelRange channel_range(const KernelKind& kind, const Request& request, const Layout& layout);

// What nccl-tests calls the size, which tables go by: the vector of all-reduce and broadcast, else the longer of a
// rank's buffers. At most 2^64-1, if the product is more.
std::uint64_t size_bytes(const Request& request);

// What a built-in table is made for: the time of a call alone, or that of a step in which a program computes beside it.
enum class Preference : std::uint8_t { latency, overlap };
constexpr const char* name(Preference preference) { return preference == Preference::latency ? "latency" : "overlap"; }

class Choices {
 public:
  // `forced` is BUSBW_ALGORITHM, `table_text` what a table file holds (choice_table.h describes both; either may be
  // empty), `gpu_name` as the driver has it, `prefer` which of the built-in tables comes behind them. Throws a Failure
  // with one sentence for text that is not right.
  static Choices from_settings(const std::string& forced, const std::string& table_text, const std::string& gpu_name,
                               Preference prefer = Preference::latency);

  // On a layout of as many channels as the kernels may have blocks; by default the largest.
  Choice choose(const Request& request) const { return choose(request, Layout::of(request.ranks)); }
  Choice choose(const Request& request, const Layout& layout) const;

  // Whether the choice hangs on `beside_work` of the request.
  bool asks_whether_beside(const Request& request) const;
  // Whether it does so for any request of so many ranks.
  bool asks_whether_beside(int ranks) const;
  // Whether any request of so many ranks may go by staged copies.
  bool may_stage(int ranks) const;

  // Equal for equal decisions; for ranks to compare.
  std::uint64_t fingerprint() const { return fingerprint_; }

 private:
  std::array<std::optional<Use>, collective_count> forced_;
  std::array<std::vector<Rule>, collective_count> rules_;  // the first that matches and can do it decides
  std::uint64_t fingerprint_ = 0;
};

}  // namespace busbw::gpu

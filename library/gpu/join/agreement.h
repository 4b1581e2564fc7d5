// What ranks tell each other when a communicator is made, and what follows from it: one decision, the same on all
// ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "library/gpu/cuda/device.h"
#include "library/gpu/watch/watch_frame.h"

namespace busbw::gpu {

// One rank's, of fixed size; all ranks' come together by an all-gather of the real NCCL.
struct PeerRecord {
  char magic[8];           // "busbwgpu"
  std::uint32_t protocol;  // of this record, of the kernels' layout and of the watch
  std::int32_t rank;
  std::int32_t ranks;
  std::int32_t pid;
  std::uint64_t host;      // equal for processes of one host since it was started
  std::uint64_t process;   // random: equal only within one process
  std::uint64_t settings;  // of everything that ranks must decide alike
  std::int32_t ordinal;    // of the GPU in its process
  std::int32_t channel_limit;
  unsigned char uuid[16];
  char bus_id[16];
  MemoryHandle scratch;
  std::uint64_t scratch_address;
  std::uint64_t watch_name;  // of rank 0
  WatchSecret watch_secret;
  std::int32_t able;  // 0: for the reason below
  char reason[324];
};
static_assert(sizeof(PeerRecord) == 512);

inline constexpr std::uint32_t agreement_protocol = 2;

// The second exchange: did reaching the others work?
struct PeerVerdict {
  std::int32_t able;
  char reason[252];
};
static_assert(sizeof(PeerVerdict) == 256);

// Copies as much of a sentence as a record holds.
template <std::size_t size>
void put_text(char (&to)[size], const std::string& sentence) {
  const std::size_t length = sentence.copy(to, size - 1);
  to[length] = '\0';
}

struct Agreement {
  bool accelerated = false;
  std::string reason;     // why not
  int channel_limit = 0;  // the least of all ranks
};

// Pure, so that ranks with the same records decide alike.
Agreement agree(const std::vector<PeerRecord>& records);
Agreement agree(const std::vector<PeerRecord>& records, const std::vector<PeerVerdict>& verdicts);

// "pid 123 on GPU 0000:0f:00.0"
std::string describe(const PeerRecord& record);

}  // namespace busbw::gpu

// What ranks tell each other when a communicator is made, and what follows from it: one decision, the same on all
// ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "library/gpu/choose/choice.h"
#include "library/gpu/cuda/device.h"
#include "library/gpu/join/descriptor_post.h"
#include "library/gpu/watch/watch_frame.h"

namespace busbw::gpu {

// Communicators that can be made smaller when another one comes; those beyond are small.
inline constexpr int most_live = 60;

// One rank's, of fixed size; all ranks' come together by an all-gather of the real NCCL.
struct PeerRecord {
  char magic[8];           // "busbwgpu"
  std::uint32_t protocol;  // of this record, of the kernels' layout and of the watch
  std::int32_t rank;
  std::int32_t ranks;
  std::int32_t pid;
  std::uint64_t host;            // equal for processes of one host since it was started
  std::uint64_t process;         // random: equal only within one process
  std::uint64_t settings;        // of everything that ranks must decide alike
  std::int32_t ordinal;          // of the GPU in its process
  std::int32_t channel_limit;    // blocks that this rank's GPU has room for (room.h)
  std::int32_t policy;           // NCCL's CTAPolicy
  std::int32_t population;       // communicators on this rank's GPU, with this one
  std::int32_t multiprocessors;  // that this rank may fill
  std::int32_t live_count;
  unsigned char uuid[16];
  char bus_id[16];
  MemoryHandle scratch;
  std::uint64_t scratch_address;
  std::uint64_t watch_name;  // of rank 0
  WatchSecret watch_secret;
  std::int32_t able;  // 0: for the reason below
  char reason[252];
  std::int32_t blocking;
  std::int32_t queues;   // Settings
  std::int32_t sharers;  // Settings
  std::int32_t reserved;
  PostAddress votes;              // where this rank waits for the page of its Ballots; 0: it wants none
  std::uint64_t live[most_live];  // communicators that are there already, by their identity
};
static_assert(sizeof(PeerRecord) == 976);

inline constexpr std::uint32_t agreement_protocol = 8;

// The second exchange: did reaching the others work?
struct PeerVerdict {
  std::int32_t able;
  char reason[252];
};
static_assert(sizeof(PeerVerdict) == 256);

// With it, where the communicators that are there already stand: calls counted so far, in the order of `live`.
struct JoinVerdict {
  PeerVerdict verdict;
  std::int32_t counted;  // 0: this rank did not look
  std::int32_t ballots;  // this rank has the page
  std::uint64_t calls[most_live];
};

// Copies as much of a sentence as a record holds.
template <std::size_t size>
void put_text(char (&to)[size], const std::string& sentence) {
  const std::size_t length = sentence.copy(to, size - 1);
  to[length] = '\0';
}

struct Agreement {
  bool accelerated = false;
  std::string reason;                // why not
  int channel_limit = 0;             // the least of all ranks
  bool blocking = true;              // all ranks
  Obstacle staged = Obstacle::none;  // what keeps staged copies from these ranks
};

// Pure, so that ranks with the same records decide alike.
Agreement agree(const std::vector<PeerRecord>& records);
Agreement agree(const std::vector<PeerRecord>& records, const std::vector<PeerVerdict>& verdicts);

// Ballots are for all ranks or for none.
bool all_vote(const std::vector<JoinVerdict>& verdicts);

// What becomes of a communicator that is there already: from call `from` on its kernels take `limit` blocks at most.
struct Narrowing {
  std::uint64_t identity;
  std::uint64_t from;
  int limit;
};
// For those whose ranks all take part here, and only if every rank has counted: the same on all of them. `ranks_of`
// gives how many ranks a communicator of this rank's has.
struct LiveCommunicator {
  std::uint64_t identity;
  int ranks;
};
std::vector<Narrowing> narrow(const std::vector<PeerRecord>& records, const std::vector<JoinVerdict>& verdicts,
                              const std::vector<LiveCommunicator>& live);

// "pid 123 on GPU 0000:0f:00.0"
std::string describe(const PeerRecord& record);

}  // namespace busbw::gpu

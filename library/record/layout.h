// The file of a recording as it lies in memory and on disk (docs/reference/recording.md): little-endian, every field at
// a fixed place, so that anything can read it while it is written, after its process has gone, or by hand.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace busbw::record {

constexpr char magic[8] = {'B', 'U', 'S', 'B', 'W', 'R', 'E', 'C'};
constexpr std::uint32_t version = 1;
constexpr std::size_t header_bytes = 4096;
// Times in calls count these, from the start of the recording.
constexpr std::uint64_t tick_ns = 64;

enum class Kind : std::uint8_t {
  none = 0,
  all_reduce = 1,
  all_gather = 2,
  reduce_scatter = 3,
  broadcast = 4,
  reduce = 5,
  all_to_all = 6,
  gather = 7,
  scatter = 8,
  send = 9,
  recv = 10,
  put_signal = 11,
  signal = 12,
  wait_signal = 13,
  // RCCL's: counts of its own for each peer, of which the sum of those sent stands here.
  all_to_all_v = 14,
  // A run of an MSCCL algorithm; any collective.
  msccl = 15,
};

constexpr bool is_collective(Kind kind) { return kind >= Kind::all_reduce && kind <= Kind::scatter; }

enum Flag : std::uint8_t {
  // Captured into a CUDA graph, which may run it never or often.
  flag_captured = 1,
  // With a configuration of its own, as ncclAllReduceConfig.
  flag_configured = 2,
  // NCCL refused it.
  flag_failed = 4,
};

// One call. `stamp` is the low half of the call's number among all of this process, from 1 on, and is written last.
struct alignas(32) Call {
  std::atomic<std::uint32_t> stamp;
  // Of a collective among the collectives of its communicator, of another call among the others; from 1 on.
  std::uint32_t sequence;
  // count 48 | communicator's place in the table 16
  std::uint64_t what;
  // time 48 (ticks) | stream 16 (folded handle)
  std::uint64_t when;
  // kind 5 | launched 1 | type 4 | op 3 | flags 3 | root or peer 20 | group 12 | duration 16, from the lowest bit on.
  // Launched: not called by the program, but run by the launch of a graph that captured it.
  std::atomic<std::uint64_t> how;
};
static_assert(sizeof(Call) == 32);
constexpr std::uint64_t how_launched = 1 << 5;
// The duration is 0 until the call has ended: nobody else writes to its place before.
constexpr int how_duration_at = 48;

// How long a call took on the GPU. `number` is that of the call among all of this process, and is written last.
struct alignas(32) Time {
  std::atomic<std::uint64_t> number;
  // From the start of the recording, by the host's clock as far as it is known: never before the call.
  std::uint64_t begun_ns;
  // duration 48 (ns) | communicator's place 16. The duration of a call in a group is that of the group's stream.
  std::uint64_t what;
  std::uint32_t sequence;
  // 1: in a group with other calls
  std::uint32_t flags;
};
static_assert(sizeof(Time) == 32);

// How far the GPU has come with the calls of one communicator, looked at while the program calls nothing. Numbers are
// those of collectives (their low halves); 0 for none.
struct alignas(32) Pulse {
  std::uint16_t place;
  // Of the first call that has not begun, else of the first that has not ended; folded as in Call.
  std::uint16_t stream;
  // What the driver said, where it was neither done nor not done.
  std::int32_t error;
  // The last that the GPU has begun: all that was queued before it in its stream is done. The first that it has not.
  std::uint32_t begun;
  std::uint32_t not_begun;
  // The last that has ended on the GPU, and the first that has not.
  std::uint32_t ended;
  std::uint32_t not_ended;
  // Calls that had begun on the communicator by then: others since make this old.
  std::uint64_t entered;
};
static_assert(sizeof(Pulse) == 32);
// In the header's page.
constexpr std::size_t pulses_at = 1024;
constexpr std::size_t most_pulses = 96;
static_assert(pulses_at + most_pulses * sizeof(Pulse) <= header_bytes);

// NCCL's codes but for ncclSuccess and ncclInProgress.
constexpr bool is_failure(int result) { return result != 0 && result != 7; }

enum class Made : std::uint32_t { none = 0, init = 1, init_all = 2, split = 3, shrink = 4, grow = 5 };
enum class Ended : std::uint32_t { alive = 0, destroyed = 1, aborted = 2, revoked = 3 };

// One rank of one communicator.
struct alignas(128) Communicator {
  // Equal on all its ranks, and on no other communicator's.
  std::uint64_t identity;
  // Identity of the one that it was split, shrunk or grown from.
  std::uint64_t parent;
  std::int32_t rank;
  std::int32_t ranks;
  std::int32_t device;
  Made made;
  std::int32_t color;
  std::int32_t last_error;
  std::uint64_t made_ns;
  std::uint64_t ended_ns;
  std::atomic<Ended> ended;
  // 1 while the library's ncclGroupEnd is at the last calls here, 2 while its ncclCommFinalize or ncclCommDestroy is.
  std::atomic<std::uint32_t> in_group_end;
  // How many calls have begun here, have come back to the program, and have run to their end.
  std::atomic<std::uint64_t> entered;
  std::atomic<std::uint64_t> returned;
  std::atomic<std::uint64_t> completed;
  std::atomic<std::uint64_t> entered_ns;
  std::atomic<std::uint64_t> returned_ns;
  // what and how of the last call that has begun, as in Call.
  std::atomic<std::uint64_t> last_what;
  std::atomic<std::uint64_t> last_how;
  // How many of those that have begun are collectives: the ranks compare by this one.
  std::atomic<std::uint64_t> collectives;
};
static_assert(sizeof(Communicator) == 128);

struct Header {
  char magic[8];
  std::uint32_t version;
  std::uint32_t header_bytes;
  std::uint32_t communicator_bytes;
  std::uint32_t communicator_capacity;
  std::uint32_t call_bytes;
  std::uint32_t tick_ns;
  // A power of two.
  std::uint64_t call_capacity;
  std::uint64_t communicators_at;
  std::uint64_t calls_at;
  std::uint64_t file_bytes;
  std::uint32_t pid;
  std::uint32_t uid;
  // Clock ticks after boot, from /proc, so that a pid that comes again is told from it.
  std::uint64_t process_start;
  std::uint64_t boot_id;
  std::uint64_t pid_namespace;
  // Of one moment.
  std::uint64_t realtime_ns;
  std::uint64_t monotonic_ns;
  std::int32_t nccl_version;
  // As the launcher numbered this process; -1 where it did not.
  std::int32_t launched_rank;
  char host[64];
  // Calls that have begun, those that were lost because the file could not grow, communicators without a place.
  std::atomic<std::uint64_t> calls;
  std::atomic<std::uint64_t> lost;
  std::atomic<std::uint64_t> communicators;
  std::atomic<std::uint64_t> communicators_lost;
  // Calls from number 1 on that have memory behind them; the rest of the file is a hole.
  std::atomic<std::uint64_t> backed;
  // 0 while the process runs, 1 when it has exited in order.
  std::atomic<std::uint32_t> ended;
  // 1: calls return when they are done, as over busbw's CPU library.
  std::uint32_t synchronous;
  // Launches of graphs with calls of ours in them.
  std::atomic<std::uint64_t> launches;
  // Times on the GPU: where they lie, room for how many (a power of two), how many were written, and how many calls
  // were asked for and got none.
  std::uint64_t times_at;
  std::uint64_t time_capacity;
  std::atomic<std::uint64_t> times;
  std::atomic<std::uint64_t> times_missed;
  // Every how many calls of a communicator one has a time; 0 for none.
  std::uint32_t times_every;
  // 1: launches of graphs are seen. 0: nothing captured a call yet, or the program's CUDA cannot be looked at.
  std::atomic<std::uint32_t> sees_launches;
  // The communicator that the program is making now, while NCCL waits for its other ranks: how, with 0 for none, the
  // identity that it will have (of a split, shrink or grow: its parent's), since when, and as which rank of how many,
  // or -1.
  std::uint64_t making_identity;
  std::uint64_t making_ns;
  std::int32_t making_rank;
  std::int32_t making_ranks;
  std::atomic<Made> making;
  // Where the process has the file in its memory; after exec it has not.
  std::uint64_t mapped_at;
  // When the GPU was last looked at, by the monotonic clock; 0: never. How many pulses there are; odd while they are
  // written.
  std::atomic<std::uint64_t> pulse_ns;
  std::atomic<std::uint32_t> pulses;
  std::atomic<std::uint32_t> pulse_stamp;
  // The last communicator that NCCL refused to make, as above, and its error.
  std::uint64_t refused_identity;
  std::int32_t refused_rank;
  std::int32_t refused_ranks;
  std::int32_t refused_error;
  std::atomic<Made> refused;
  // Calls without a place: the call there, a whole ring before, had not ended.
  std::atomic<std::uint64_t> overtaken;
};
static_assert(offsetof(Header, launches) == 232 && offsetof(Header, making_identity) == 280 &&
              offsetof(Header, mapped_at) == 312 && offsetof(Header, pulse_ns) == 320 &&
              offsetof(Header, refused_identity) == 336 && offsetof(Header, overtaken) == 360);
static_assert(sizeof(Header) <= pulses_at);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);

}  // namespace busbw::record

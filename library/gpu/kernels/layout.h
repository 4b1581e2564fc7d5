// Where everything lies in a rank's scratch memory, which its peers write and it reads. Plain arithmetic, for host and
// device alike.
//
//   scratch of one rank
//   +-------------------+------------------------+---------------------------+-----------+----------------+
//   | LL packets        | sentinel packs         | Simple slots and counters | meetings  | staged copies  |
//   | [channel][port]   | [channel][port]        | [channel][port]           | [source]  | [lane]         |
//   | [set][source][i]  | [set][source][i]       | [source][slot]            |           | (staged.h)     |
//   +-------------------+------------------------+---------------------------+-----------+----------------+
//
// A channel is a block's index: block b of a kernel talks only with block b of the peers and has its own part of
// everything, so that two calls with different numbers of blocks never meet in a slot. A port is one of the two
// exchanges that a two-shot algorithm makes. A source is the rank that writes.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define BUSBW_BOTH __host__ __device__
#else
#define BUSBW_BOTH
#endif

namespace busbw::gpu {

inline constexpr int max_ranks = 8;
inline constexpr int max_channels = 128;
inline constexpr int ports = 2;

// Epoch-tagged packets need two sets: a peer fills one while this rank may still read the other.
inline constexpr int ll_sets = 2;
// A packet is 16 bytes that carry 8.
inline constexpr std::uint32_t ll_packets = 512;

// Sentinel packs need three: one in use, one that a faster peer fills already, one being cleared.
inline constexpr int sentinel_sets = 3;

// Slots of one connection of the Simple protocol: so many steps may the sender be ahead of the receiver.
inline constexpr int simple_slots = 8;

// Bytes of scratch that these two protocols share out among their lines: sentinels for messages of up to 17 MiB, where
// they are the fastest. With the packets of LL, at most 32 MiB, all stays under 256 MiB.
inline constexpr std::uint64_t sentinel_budget = 104u << 20;
inline constexpr std::uint64_t simple_budget = 64u << 20;

// Staged copies (run/staged.h) take a message in pieces, which use two lanes in turn: while one piece is added, the
// next one is on its way. A lane has room for what peers push and for what they fetch, so many bytes for each.
inline constexpr int staged_lanes = 2;
inline constexpr std::uint64_t staged_half = 12u << 20;

// What the words between staged copies say, by the rank that writes them. A word is 0 or 1: its writer gives it the
// value that says so, its owner waits for that and turns it back, so that a CUDA graph can be launched again and again.
//   arrived  what this source has pushed is there             vacant   this peer's slot for this rank's pushes is free
//   ready    this source's part can be fetched                fetched  this peer has fetched from this rank's part
enum class StagedWord : std::uint8_t { arrived, ready, vacant, fetched };
inline constexpr int staged_words = 4;
// Memory is 0 at first: then nothing has arrived or is ready, and every slot is vacant and may be filled.
BUSBW_BOTH constexpr std::uint32_t told_by(StagedWord word) { return word < StagedWord::vacant ? 1 : 0; }

// Offsets in bytes from the start of a rank's scratch. Every rank of a communicator has the same layout.
struct Layout {
  std::int32_t ranks = 0;
  std::int32_t channels = 0;
  std::uint32_t sentinel_packs = 0;  // 16-byte packs of one source, port and set
  std::uint32_t slot_bytes = 0;      // of one step of the Simple protocol
  std::uint64_t sentinel_start = 0;
  std::uint64_t simple_start = 0;
  std::uint64_t counters_start = 0;
  std::uint64_t meetings_start = 0;
  std::uint64_t words_start = 0;
  std::uint64_t staged_start = 0;
  std::uint64_t staged_bytes = 0;  // half of a lane
  std::uint64_t bytes = 0;

  // A channel has the same room whatever their number: a communicator of few channels needs that much less.
  BUSBW_BOTH static constexpr Layout of(int ranks, int channels = max_channels) {
    const std::uint64_t lines = static_cast<std::uint64_t>(max_channels) * ports * ranks;
    return with(ranks, channels, static_cast<std::uint32_t>(sentinel_budget / (lines * sentinel_sets * 16) / 64 * 64),
                static_cast<std::uint32_t>(simple_budget / (lines * simple_slots) / 1024 * 1024),
                staged_half / max_channels * static_cast<std::uint64_t>(channels));
  }

  // Of any size, such as a test can fill.
  BUSBW_BOTH static constexpr Layout with(int ranks, int channels, std::uint32_t sentinel_packs,
                                          std::uint32_t slot_bytes, std::uint64_t staged = 4096) {
    const std::uint64_t lines = static_cast<std::uint64_t>(channels) * ports * ranks;
    Layout layout;
    layout.ranks = ranks;
    layout.channels = channels;
    layout.sentinel_packs = sentinel_packs;
    layout.slot_bytes = slot_bytes;
    layout.sentinel_start = lines * ll_sets * ll_packets * 16;
    layout.simple_start = layout.sentinel_start + lines * sentinel_sets * sentinel_packs * 16;
    layout.counters_start = layout.simple_start + lines * simple_slots * slot_bytes;
    layout.meetings_start = layout.counters_start + static_cast<std::uint64_t>(channels) * ports * counter_bytes;
    layout.words_start = layout.meetings_start + counter_bytes;
    layout.staged_start = layout.words_start + words_bytes;
    layout.staged_bytes = staged;
    layout.bytes = layout.staged_start + 2 * staged_lanes * staged;
    return layout;
  }

  // Packet 0 of what `source` sends to this scratch's rank.
  BUSBW_BOTH constexpr std::uint64_t ll(int channel, int port, std::uint32_t epoch, int source) const {
    const std::uint64_t line = ((static_cast<std::uint64_t>(channel) * ports + port) * ll_sets + (epoch & 1)) * ranks;
    return (line + source) * ll_packets * 16;
  }

  BUSBW_BOTH constexpr std::uint64_t sentinel(int channel, int port, std::uint32_t set, int source) const {
    const std::uint64_t line = ((static_cast<std::uint64_t>(channel) * ports + port) * sentinel_sets + set) * ranks;
    return sentinel_start + (line + source) * sentinel_packs * 16;
  }

  // Where step number `step` of a connection lies.
  BUSBW_BOTH constexpr std::uint64_t slot(int channel, int port, int source, std::uint32_t step) const {
    const std::uint64_t line = (static_cast<std::uint64_t>(channel) * ports + port) * ranks + source;
    return simple_start + (line * simple_slots + step % simple_slots) * slot_bytes;
  }

  // The number of steps that `source` has filled; `source` writes it here after the data.
  BUSBW_BOTH constexpr std::uint64_t filled(int channel, int port, int source) const {
    return counters_start + (static_cast<std::uint64_t>(channel) * ports + port) * counter_bytes + 4 * source;
  }

  // The number of steps that `reader` has read of what this scratch's rank sent to it; `reader` writes it here.
  BUSBW_BOTH constexpr std::uint64_t read(int channel, int port, int reader) const {
    return filled(channel, port, reader) + counter_bytes / 2;
  }

  // The number of meetings that `source` has come to; `source` writes it here.
  BUSBW_BOTH constexpr std::uint64_t met(int source) const {
    return meetings_start + 4 * static_cast<std::uint64_t>(source);
  }

  // The word of `writer` in a lane of staged copies.
  BUSBW_BOTH constexpr std::uint64_t staged_word(int lane, StagedWord which, int writer) const {
    const int row = lane * staged_words + static_cast<int>(which);
    return words_start + 4 * static_cast<std::uint64_t>(row * max_ranks + writer);
  }

  // Bytes of a lane for each of `parts` slots, whole packs.
  BUSBW_BOTH constexpr std::uint64_t staged_slot(int parts) const {
    return staged_bytes / static_cast<std::uint64_t>(parts) / 16 * 16;
  }

  // Where `source` pushes to; each of the peers has a slot.
  BUSBW_BOTH constexpr std::uint64_t pushed(int lane, int rank, int source) const {
    const int slot = source < rank ? source : source - 1;
    return staged_start + 2 * static_cast<std::uint64_t>(lane) * staged_bytes +
           static_cast<std::uint64_t>(slot) * staged_slot(ranks - 1);
  }

  // What peers fetch.
  BUSBW_BOTH constexpr std::uint64_t offered(int lane) const {
    return staged_start + (2 * static_cast<std::uint64_t>(lane) + 1) * staged_bytes;
  }

  // Filled and read counters in lines of their own: two peers that write the same line at once slow each other.
  static constexpr std::uint64_t counter_bytes = 256;
  static constexpr std::uint64_t words_bytes = 4 * staged_lanes * staged_words * max_ranks;
};

static_assert(simple_slots > 0 && (simple_slots & (simple_slots - 1)) == 0, "step numbers wrap at 2^32");
static_assert(max_ranks * 4 <= Layout::counter_bytes / 2);

}  // namespace busbw::gpu

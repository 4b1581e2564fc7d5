// How long calls take on the GPU, by events of the CUDA driver around a sample of them (BUSBW_RECORD_TIMES). Events are
// looked at when the next sampled call comes and when a communicator ends: nothing waits for the GPU.
#pragma once

#include "library/record/communicators.h"

namespace busbw::record {

// Whether this call is one of the sample: the same calls on all ranks.
inline bool is_sampled(const Rank& rank, std::uint64_t sequence) {
  const std::uint32_t every = rank.recording->times_every();
  return every != 0 && sequence != 0 && sequence % every == 0;
}

// A call, or calls of one group in one stream, whose begin the GPU has been told to note.
struct Timed;

// Null where the call cannot be timed, which is counted.
Timed* begin_time(Rank* rank, const Ticket& ticket, const void* stream);
// Further calls of the same group and stream.
void add_to_time(Timed* timed, const Ticket& ticket);
bool is_on(const Timed* timed, const void* stream);
// After the library has given the GPU its work. Where it has not (`worked` false) there is no time.
void end_time(Timed* timed, bool worked);
// Takes what has come to its end.
void look_at_times(Recording* recording);

}  // namespace busbw::record

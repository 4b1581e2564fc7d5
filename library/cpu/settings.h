// What the environment may change in the library: few knobs, each documented in docs/reference/cpu-library.md.
#pragma once

#include <algorithm>
#include <cstddef>

#include "library/cpu/collective.h"

namespace busbw::cpu {

// How a rank fills memory that peers have read: see shared_store.h.
enum class Stores { automatic, cached, streaming };

struct Settings {
  // BUSBW_CPU_TIMEOUT: seconds that a rank waits for others to arrive when a communicator is made. A collective waits
  // ten times as long for a peer that lives.
  double timeout_seconds = 60;
  // BUSBW_CPU_THRESHOLD: a send buffer of up to this many bytes goes through one slot in one exchange.
  std::size_t short_max_bytes = 16 << 10;
  // The same where the direct way can follow; the variable sets both.
  std::size_t short_before_direct_bytes = 1 << 10;
  // BUSBW_CPU_CHUNK: bytes that pass through a slot at a time.
  std::size_t chunk_bytes = 128 << 10;
  // BUSBW_CPU_ALGO=staged: longer ones go through slots too, never from buffer to buffer.
  bool force_staged = false;
  // BUSBW_CPU_STORES=cached, streaming: each rank's own.
  Stores stores = Stores::automatic;

  // Throws a Failure that names the variable if one has no usable value.
  static Settings from_environment();
};

// Bytes of a send buffer up to which the short way is taken. In it every rank copies its whole contribution and reads
// all of everybody's; ranks of one process that split the work move a fraction of that, for a second exchange of
// headers. The exchange takes as long as moving about 1 KiB between processors (measured: bench/cpu/README.md), but
// much longer where a rank must wait for its processor. An alltoall moves as much either way, and in place it cannot go
// direct.
constexpr std::size_t short_limit(std::size_t usual, std::size_t before_direct, CollectiveKind kind, bool one_process,
                                  bool crowded) {
  return one_process && !crowded && kind != CollectiveKind::all_to_all ? std::min(usual, before_direct) : usual;
}

}  // namespace busbw::cpu

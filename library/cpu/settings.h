// What the environment may change in the library: few knobs, each documented in docs/reference/cpu-library.md.
#pragma once

#include <cstddef>

namespace busbw::cpu {

struct Settings {
  // BUSBW_CPU_TIMEOUT: seconds that a rank waits for others to arrive when a communicator is made. A collective waits
  // ten times as long for a peer that lives.
  double timeout_seconds = 60;
  // BUSBW_CPU_THRESHOLD: bytes per rank from which ranks read each other's buffers where they can, instead of slots.
  std::size_t direct_min_bytes = 16 << 10;
  // BUSBW_CPU_CHUNK: bytes that pass through a slot at a time.
  std::size_t chunk_bytes = 128 << 10;
  // BUSBW_CPU_ALGO=staged: never read each other's buffers.
  bool force_staged = false;

  // Throws a Failure that names the variable if one has no usable value.
  static Settings from_environment();
};

}  // namespace busbw::cpu

// What the environment may change in the library: few knobs, each documented in docs/reference/cpu-library.md.
#pragma once

#include <cstddef>

namespace busbw::cpu {

struct Settings {
  // BUSBW_CPU_TIMEOUT: seconds that a rank waits for others to arrive when a communicator is made. A collective waits
  // ten times as long for a peer that lives.
  double timeout_seconds = 60;
  // BUSBW_CPU_THRESHOLD: a send buffer of up to this many bytes goes through one slot in one exchange.
  std::size_t short_max_bytes = 16 << 10;
  // BUSBW_CPU_CHUNK: bytes that pass through a slot at a time.
  std::size_t chunk_bytes = 128 << 10;
  // BUSBW_CPU_ALGO=staged: longer ones go through slots too, never from buffer to buffer.
  bool force_staged = false;

  // Throws a Failure that names the variable if one has no usable value.
  static Settings from_environment();
};

}  // namespace busbw::cpu

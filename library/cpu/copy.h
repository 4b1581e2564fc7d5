// Copies of large blocks, optionally around the caches.
#pragma once

#include <cstddef>
#include <cstring>

namespace busbw::cpu {

// memcpy with non-temporal stores; fenced, so that a later release store publishes the data.
void copy_streaming(void* to, const void* from, std::size_t bytes);

inline void copy_bytes(void* to, const void* from, std::size_t bytes, bool streaming = false) {
  if (to == from || bytes == 0) return;
  if (streaming) {
    copy_streaming(to, from, bytes);
  } else {
    std::memcpy(to, from, bytes);
  }
}

}  // namespace busbw::cpu

// Copies of large blocks around the caches: SSE2 streaming stores on x86-64, memcpy elsewhere.
#include "library/cpu/copy.h"

#include <algorithm>
#include <cstdint>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace busbw::cpu {

#if defined(__x86_64__)

void copy_streaming(void* to, const void* from, std::size_t bytes) {
  auto* out = static_cast<char*>(to);
  const auto* in = static_cast<const char*>(from);
  // Streaming stores fill whole lines; a head shorter than a line goes through the cache.
  const std::size_t head = std::min<std::size_t>((64 - reinterpret_cast<std::uintptr_t>(out) % 64) % 64, bytes);
  std::memcpy(out, in, head);
  std::size_t done = head;
  for (; done + 64 <= bytes; done += 64) {
    const auto* line = reinterpret_cast<const __m128i*>(in + done);
    auto* target = reinterpret_cast<__m128i*>(out + done);
    const __m128i a = _mm_loadu_si128(line), b = _mm_loadu_si128(line + 1);
    const __m128i c = _mm_loadu_si128(line + 2), d = _mm_loadu_si128(line + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  std::memcpy(out + done, in + done, bytes - done);
  _mm_sfence();
}

#else

void copy_streaming(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }

#endif

}  // namespace busbw::cpu

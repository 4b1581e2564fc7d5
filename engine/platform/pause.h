// The hint that a processor gives its sibling while it spins.
#pragma once

namespace busbw {

inline void pause_processor() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

}  // namespace busbw

// A thread of the recorder that looks where the GPU is while the program calls nothing, and writes it into the
// recording's header. It looks twice a second whether calls were made, and asks the driver only where none were.
#pragma once

#include <cstdint>

#include "library/record/recording.h"

namespace busbw::record {

// When the GPU is asked: while nothing is called, until all that was marked has ended; then again after further calls.
class Rest {
 public:
  // `calls` are those so far, at each turn.
  bool is_due(std::uint64_t calls) {
    if (seen_ == calls) return !done_;
    seen_ = calls;
    done_ = false;
    return false;
  }
  void looked(bool waits) { done_ = !waits; }

 private:
  std::uint64_t seen_ = ~std::uint64_t(0);
  bool done_ = false;
};

// A thread of ours, which handles no signals of the program; whether there is one.
bool start_thread(const char* name, void* (*work)(void*), void* argument);

// Once for each recording; does nothing where the GPU cannot be asked.
void start_heart(Recording* recording);

// One look at all communicators; false where all that was marked has ended. By one thread at a time.
bool look_at_marks(Recording& recording);

}  // namespace busbw::record

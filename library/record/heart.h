// A thread of the recorder that looks where the GPU is while the program calls nothing, and writes it into the
// recording's header. It looks twice a second whether calls were made, and asks the driver only where none were.
#pragma once

#include "library/record/recording.h"

namespace busbw::record {

// Once for each recording; does nothing where the GPU cannot be asked.
void start_heart(Recording* recording);

// One look at all communicators; false where all that was marked has ended. By one thread at a time.
bool look_at_marks(Recording& recording);

}  // namespace busbw::record

// What calls need of their thread.
#include "library/record/this_thread.h"

namespace busbw::record {

constinit thread_local ThisThread this_thread;
std::atomic<std::uint64_t> edition{1};

}  // namespace busbw::record

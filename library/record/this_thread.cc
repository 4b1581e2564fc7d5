// What calls need of their thread.
#include "library/record/this_thread.h"

namespace busbw::record {

constinit thread_local ThisThread this_thread;
constinit OfAllThreads of_all_threads;

}  // namespace busbw::record

// Threads of ours that outlive the call that has started them, and the end of the process: CUDA and NCCL take
// themselves apart in exit handlers, and nothing may be asked of them from then on.
#pragma once

#include <functional>

namespace busbw::gpu {

// Starts a thread that takes none of the program's signals. False where the system has no thread left to give.
bool start_thread(std::function<void()> body);

// The same, and when the process calls exit, the thread is waited for until it rests or has ended, for a second at
// most.
bool in_background(std::function<void()> body);

// Such a thread comes here between two things that it asks of CUDA or NCCL, and does not come back once the process
// ends. Other threads go on.
void rest_if_the_process_ends();

// From then on threads in the background do nothing more: nobody may wait for one.
bool process_ends();

}  // namespace busbw::gpu

// How long the rendezvous waits for what.
#pragma once

#include <chrono>

namespace busbw {

inline constexpr std::chrono::seconds wait_limit{1800};   // for a live peer in a collective call
inline constexpr std::chrono::seconds announce_limit{2};  // for process 0 to confirm a failure
inline constexpr std::chrono::seconds leave_limit{10};    // for the others at the end
inline constexpr std::chrono::seconds heartbeat_interval{1};
inline constexpr std::chrono::seconds silence_limit{5};  // without a heartbeat: lost

}  // namespace busbw

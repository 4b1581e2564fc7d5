// How long the rendezvous waits for what.
#pragma once

#include <chrono>

namespace busbw {

inline constexpr std::chrono::seconds wait_limit{1800};   // for a live peer in a collective call
inline constexpr std::chrono::seconds announce_limit{2};  // for process 0 to confirm a failure
inline constexpr std::chrono::seconds leave_limit{10};    // for the others at the end
inline constexpr std::chrono::milliseconds heartbeat_interval{500};
inline constexpr std::chrono::seconds silence_limit{4};           // without a heartbeat: lost
inline constexpr std::chrono::milliseconds stopped_limit{2'000};  // without one, and /proc shows it stopped

}  // namespace busbw

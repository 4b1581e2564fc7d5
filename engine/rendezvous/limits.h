// How long the rendezvous waits for what.
#pragma once

#include <chrono>

namespace busbw {

inline constexpr std::chrono::seconds wait_limit{1800};   // for a live peer in a collective call
inline constexpr std::chrono::seconds announce_limit{2};  // for process 0 to confirm a failure
inline constexpr std::chrono::seconds leave_limit{10};    // for the others at the end
inline constexpr std::chrono::milliseconds heartbeat_interval{500};
inline constexpr std::chrono::seconds silence_limit{4};           // without a heartbeat: lost
inline constexpr std::chrono::milliseconds stopped_limit{2'000};  // /proc shows it stopped for so long
inline constexpr std::chrono::milliseconds late_limit{900};       // a heartbeat is late: look at /proc
inline constexpr std::chrono::milliseconds naming_pause{250};     // for the launcher to pass on who was stopped

}  // namespace busbw

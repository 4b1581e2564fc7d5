// Points in time as records write them, and the name of a run.
#pragma once

#include <chrono>
#include <string>

namespace busbw {

using WallClock = std::chrono::system_clock;

// RFC 3339, UTC, milliseconds: 2026-11-21T03:45:01.123Z.
std::string rfc3339(WallClock::time_point when = WallClock::now());

// Local time as nccl-tests prints it: 2026-11-21 03:45:01.
std::string local_time(WallClock::time_point when = WallClock::now());
// The same of a time written by rfc3339(); what is no such time gives back itself.
std::string local_time(const std::string& rfc3339_utc);

// 20261121T034501Z-host-1a2b3c: sorts by time, says where, and does not repeat.
std::string make_run_id(const std::string& host, WallClock::time_point when = WallClock::now());

}  // namespace busbw

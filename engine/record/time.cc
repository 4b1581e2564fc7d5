// Formats points in time without the global state of the C library's own functions.
#include "engine/record/time.h"

#include <cctype>
#include <cstdio>
#include <ctime>
#include <random>

#include "engine/core/error.h"

namespace busbw {
namespace {

std::string formatted(const std::tm& parts, const char* pattern) {
  char text[64];
  return std::string(text, std::strftime(text, sizeof text, pattern, &parts));
}

std::tm utc(std::time_t seconds) {
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  return parts;
}

}  // namespace

std::string rfc3339(WallClock::time_point when) {
  const auto whole = std::chrono::floor<std::chrono::seconds>(when);
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(when - whole).count();
  return formatted(utc(WallClock::to_time_t(whole)), "%Y-%m-%dT%H:%M:%S") +
         format(".%03dZ", static_cast<int>(milliseconds));
}

std::string local_time(WallClock::time_point when) {
  const std::time_t seconds = WallClock::to_time_t(std::chrono::floor<std::chrono::seconds>(when));
  std::tm parts{};
  localtime_r(&seconds, &parts);
  return formatted(parts, "%Y-%m-%d %H:%M:%S");
}

std::string local_time(const std::string& rfc3339_utc) {
  std::tm parts{};
  const char* end = strptime(rfc3339_utc.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (!end || rfc3339_utc.empty() || rfc3339_utc.back() != 'Z') return rfc3339_utc;
  return local_time(WallClock::from_time_t(timegm(&parts)));
}

std::string make_run_id(const std::string& host, WallClock::time_point when) {
  std::string safe = host.substr(0, host.find('.'));
  for (char& c : safe)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '-';
  if (safe.empty()) safe = "host";
  std::random_device chance;
  const std::time_t seconds = WallClock::to_time_t(std::chrono::floor<std::chrono::seconds>(when));
  return formatted(utc(seconds), "%Y%m%dT%H%M%SZ-") + safe + format("-%06x", chance() & 0xffffff);
}

}  // namespace busbw

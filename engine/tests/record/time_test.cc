// Times as records and tables write them.
#include "engine/record/time.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <time.h>

#include <regex>

namespace busbw {
namespace {

using std::chrono::milliseconds;

TEST(Rfc3339, IsUtcWithMilliseconds) {
  EXPECT_EQ(rfc3339(WallClock::from_time_t(1767323045) + milliseconds(678)), "2026-01-02T03:04:05.678Z");
  EXPECT_EQ(rfc3339(WallClock::from_time_t(0)), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(rfc3339(WallClock::from_time_t(0) - milliseconds(1)), "1969-12-31T23:59:59.999Z");
}

TEST(LocalTime, IsThatOfTheTimeZone) {
  setenv("TZ", "XYZ-2", 1);  // two hours east of Greenwich
  tzset();
  EXPECT_EQ(local_time(WallClock::from_time_t(1767323045)), "2026-01-02 05:04:05");
  EXPECT_EQ(local_time(std::string("2026-01-02T03:04:05.678Z")), "2026-01-02 05:04:05");
  EXPECT_EQ(local_time(std::string("not a time")), "not a time");
}

TEST(RunId, SortsByTimeNamesTheHostAndDoesNotRepeat) {
  const auto when = WallClock::from_time_t(1767323045);
  const std::string id = make_run_id("node-7.cluster", when);
  EXPECT_TRUE(std::regex_match(id, std::regex("20260102T030405Z-node-7-[0-9a-f]{6}"))) << id;
  EXPECT_NE(id, make_run_id("node-7.cluster", when));
  EXPECT_TRUE(make_run_id("a/b c", when).starts_with("20260102T030405Z-a-b-c-"));
  EXPECT_TRUE(make_run_id("", when).starts_with("20260102T030405Z-host-"));
}

}  // namespace
}  // namespace busbw

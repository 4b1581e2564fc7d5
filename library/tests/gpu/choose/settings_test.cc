// Environment variables of the library.
#include "library/gpu/choose/settings.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "library/common/failure.h"

namespace busbw::gpu {
namespace {

class Prefer : public ::testing::Test {
 protected:
  ~Prefer() override { ::unsetenv("BUSBW_PREFER"); }
  static Preference of(const char* value) {
    ::setenv("BUSBW_PREFER", value, 1);
    return Settings::from_environment().prefer;
  }
};

TEST_F(Prefer, IsWhatThePersonSays) {
  EXPECT_EQ(of("latency"), Preference::latency);
  EXPECT_EQ(of("overlap"), Preference::overlap);
}

TEST_F(Prefer, IsLatencyInAProgramWithoutAFramework) {
  EXPECT_EQ(of(""), Preference::latency);
  ::unsetenv("BUSBW_PREFER");
  EXPECT_EQ(Settings::from_environment().prefer, Preference::latency);
}

TEST_F(Prefer, IsRefusedWithASentenceWhereItIsAnotherWord) {
  try {
    of("fast");
    FAIL() << "nothing was refused";
  } catch (const Failure& failure) {
    EXPECT_STREQ(failure.what(),
                 "BUSBW_PREFER is 'fast'; it takes latency (the fastest call alone) or overlap (the fastest step of a "
                 "program that computes beside its collectives).");
  }
}

}  // namespace
}  // namespace busbw::gpu

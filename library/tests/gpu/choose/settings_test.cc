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

TEST(Queues, AreThoseOfCudasVariableElseByDefault) {
  const auto of = [](const char* value) {
    ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", value, 1);
    return Settings::from_environment().queues;
  };
  EXPECT_EQ(of("1"), 1);
  EXPECT_EQ(of("32"), 32);
  EXPECT_EQ(of("many"), 0);
  EXPECT_EQ(of("-3"), 0);
  ::unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
  EXPECT_EQ(Settings::from_environment().queues, 0);
}

TEST(Sharers, AreReadAndRefusedWithASentence) {
  const auto of = [](const char* value) {
    ::setenv("BUSBW_GPU_SHARED", value, 1);
    return Settings::from_environment().sharers;
  };
  EXPECT_EQ(of("4"), 4);
  EXPECT_EQ(of(""), 1);
  for (const char* wrong : {"0", "9", "-1", "two", "22"}) EXPECT_THROW(of(wrong), Failure) << wrong;
  ::unsetenv("BUSBW_GPU_SHARED");
  EXPECT_EQ(Settings::from_environment().sharers, 1);
}

TEST(Check, IsReadAndRefusedWithASentence) {
  const auto of = [](const char* value) {
    ::setenv("BUSBW_CHECK", value, 1);
    return Settings::from_environment().check;
  };
  EXPECT_FALSE(of(""));
  EXPECT_FALSE(of("0"));
  EXPECT_TRUE(of("1"));
  try {
    of("yes");
    FAIL() << "nothing was refused";
  } catch (const Failure& failure) {
    EXPECT_STREQ(failure.what(),
                 "BUSBW_CHECK is 'yes'; it takes 0 or 1 (NCCL does every call too, and the results are compared).");
  }
  ::unsetenv("BUSBW_CHECK");
}

TEST(Slim, IsReadAndRefusedWithASentence) {
  const auto of = [](const char* value) {
    ::setenv("BUSBW_SLIM", value, 1);
    return Settings::from_environment().slim;
  };
  EXPECT_FALSE(of(""));
  EXPECT_FALSE(of("0"));
  EXPECT_TRUE(of("1"));
  for (const char* wrong : {"2", "yes", "-1", "01"}) EXPECT_THROW(of(wrong), Failure) << wrong;
  ::unsetenv("BUSBW_SLIM");
  EXPECT_FALSE(Settings::from_environment().slim);
}

TEST(Lend, IsReadAndRefusedWithASentence) {
  const auto of = [](const char* value) {
    ::setenv("BUSBW_LEND", value, 1);
    return Settings::from_environment().lends;
  };
  EXPECT_TRUE(of(""));
  EXPECT_FALSE(of("0"));
  EXPECT_TRUE(of("1"));
  for (const char* wrong : {"2", "yes", "-1", "01"}) EXPECT_THROW(of(wrong), Failure) << wrong;
  ::unsetenv("BUSBW_LEND");
  EXPECT_TRUE(Settings::from_environment().lends);
}

}  // namespace
}  // namespace busbw::gpu

// The versions of the system's software that a record keeps.
#include "engine/platform/software.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>

namespace busbw {
namespace {

std::string driver_in(const std::string& text) {
  const std::string path = ::testing::TempDir() + "/busbw-driver-version";
  std::ofstream(path) << text;
  const std::string found = gpu_driver_version(path.c_str());
  std::remove(path.c_str());
  return found;
}

TEST(Software, TheKernelIsTheRunningOne) {
  std::string said;
  std::ifstream("/proc/sys/kernel/osrelease") >> said;
  EXPECT_FALSE(said.empty());
  EXPECT_EQ(kernel_release(), said);
}

TEST(Software, TheDriverIsOneShortWord) {
  EXPECT_EQ(driver_in("580.95.05\n"), "580.95.05");
  EXPECT_EQ(driver_in("580.95.05 extra"), "580.95.05");
  EXPECT_EQ(driver_in(""), "");
  EXPECT_EQ(driver_in("\x1b[31m"), "");
  EXPECT_EQ(driver_in(std::string(5000, '7')).size(), 100U);
  EXPECT_EQ(gpu_driver_version("/no/such/file"), "");
  EXPECT_EQ(gpu_driver_version("/"), "");
}

}  // namespace
}  // namespace busbw

// The versions of the system's software that a record keeps.
#include "engine/platform/software.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
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

class Hardware : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(root_); }
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }
  void adapter(const std::string& name, const std::string& address, const std::string& type, bool is_device) const {
    write("sys/class/net/" + name + "/address", address + "\n");
    write("sys/class/net/" + name + "/addr_assign_type", type + "\n");
    if (is_device) write("sys/class/net/" + name + "/device/vendor", "0x15b3\n");
  }
  void gpu(const std::string& bus, const std::string& uuid) const {
    write("proc/driver/nvidia/gpus/" + bus + "/information", "Model: \t\t NVIDIA H200\nGPU UUID: \t " + uuid + "\n");
  }
  std::string identity() const { return hardware_identity(root_.string()); }
  std::filesystem::path root_ = std::filesystem::path(::testing::TempDir()) / "busbw-hardware";
};

TEST_F(Hardware, ItIsThatOfTheGpusInAnyOrder) {
  EXPECT_EQ(identity(), "");
  adapter("eth0", "02:00:00:00:00:01", "0", true);
  const std::string by_address = identity();
  gpu("0000:01:00.0", "GPU-aaaa");
  const std::string one = identity();
  EXPECT_EQ(one.size(), 16U);
  EXPECT_NE(one, by_address);
  gpu("0000:02:00.0", "GPU-bbbb");
  const std::string both = identity();
  EXPECT_NE(both, one);
  gpu("0000:01:00.0", "GPU-bbbb");
  gpu("0000:02:00.0", "GPU-aaaa");
  EXPECT_EQ(identity(), both);
}

TEST_F(Hardware, AddressesThatDifferFromStartToStartAreNoIdentity) {
  gpu("0000:01:00.0", "GPU-????????-????-????-????-????????????");
  adapter("lo", "00:00:00:00:00:00", "0", true);
  adapter("veth1", "02:00:00:00:00:02", "0", false);
  adapter("eth1", "02:00:00:00:00:03", "3", true);
  EXPECT_EQ(identity(), "");
  adapter("eth0", "02:00:00:00:00:01", "0", true);
  const std::string made = identity();
  EXPECT_EQ(made.size(), 16U);
  adapter("veth1", "02:00:00:00:00:04", "0", false);
  EXPECT_EQ(identity(), made);
}

}  // namespace
}  // namespace busbw

// Snapshots from a management library made for the test, and processors near a device from a sysfs made for the test.
#include "engine/platform/nvml.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace busbw {
namespace {

namespace fs = std::filesystem;

constexpr int not_supported = 3;
std::string asked_bus_id;

NvmlFunctions one_gpu() {
  NvmlFunctions f{};
  f.device_by_bus_id = [](const char* bus_id, NvmlFunctions::Device*) {
    asked_bus_id = bus_id;
    return asked_bus_id == "0000:1b:00.0" ? 0 : 6;
  };
  f.clock = [](NvmlFunctions::Device, int which, unsigned* mhz) { return *mhz = which == 1 ? 1980 : 3201, 0; };
  f.throttle_reasons = [](NvmlFunctions::Device, unsigned long long* reasons) { return *reasons = 0x41, 0; };
  f.temperature = [](NvmlFunctions::Device, int, unsigned*) { return not_supported; };
  f.power = [](NvmlFunctions::Device, unsigned* milliwatts) { return *milliwatts = 412'500, 0; };
  f.compute_processes = [](NvmlFunctions::Device, unsigned* count, void*) { return *count = 2, 7; };
  f.field_values = [](NvmlFunctions::Device, int count, NvmlFunctions::FieldValue* values) {
    for (int i = 0; i < count; ++i) {
      values[i].value_type = 3;
      values[i].as_unsigned_long_long = values[i].field;
      // PCIe counters are missing on this GPU.
      values[i].result = values[i].field >= 197 ? not_supported : 0;
    }
    return 0;
  };
  return f;
}

TEST(Nvml, ReadsWhatTheGpuTellsInOneUnitEach) {
  const GpuSnapshot s = Nvml(one_gpu()).snapshot("0000:1b:00");
  EXPECT_EQ(s.sm_clock_mhz, 1980U);
  EXPECT_EQ(s.memory_clock_mhz, 3201U);
  EXPECT_EQ(s.power_watts, 412.5);
  EXPECT_EQ(s.compute_processes, 2U);
  EXPECT_EQ(s.nvlink_sent_bytes, 138U * 1024);
  EXPECT_EQ(s.nvlink_received_bytes, 139U * 1024);
}

TEST(Nvml, LeavesOutWhatFailsOrIsMissing) {
  const GpuSnapshot s = Nvml(one_gpu()).snapshot("0000:1b:00");
  EXPECT_FALSE(s.temperature_celsius);
  EXPECT_FALSE(s.pcie_sent_bytes);
  EXPECT_FALSE(s.pcie_width);
  EXPECT_FALSE(s.sm_clock_max_mhz);
}

TEST(Nvml, KnowsNothingOfAnUnknownGpu) {
  const GpuSnapshot s = Nvml(one_gpu()).snapshot("0000:99:00");
  EXPECT_EQ(asked_bus_id, "0000:99:00.0");
  EXPECT_FALSE(s.sm_clock_mhz);
  EXPECT_FALSE(s.compute_processes);
}

class CpusNear : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "busbw-sysfs-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { fs::remove_all(root_); }
  std::vector<int> near(const std::string& list) {
    const fs::path folder = root_ / "bus/pci/devices/0000:1b:00.0";
    fs::create_directories(folder);
    std::ofstream(folder / "local_cpulist") << list;
    return cpus_near("0000:1b:00", root_);
  }
  fs::path root_;
};

TEST_F(CpusNear, ReadsRangesAndSingleProcessors) {
  EXPECT_EQ(near("0-2,7,30-31\n"), (std::vector<int>{0, 1, 2, 7, 30, 31}));
}

TEST_F(CpusNear, IsEmptyWhereTheSystemDoesNotTell) {
  EXPECT_TRUE(near("\n").empty());
  EXPECT_TRUE(near("nonsense\n").empty());
  EXPECT_TRUE(cpus_near("0000:99:00", root_).empty());
}

}  // namespace
}  // namespace busbw

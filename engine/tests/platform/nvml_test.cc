// Snapshots from a management library made for the test, and processors near a device from a sysfs made for the test.
#include "engine/platform/nvml.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
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
  f.device_by_bus_id = [](const char* bus_id, NvmlFunctions::Device* device) {
    asked_bus_id = bus_id;
    static char handle;
    *device = reinterpret_cast<NvmlFunctions::Device>(&handle);
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
      // This GPU has the counters of NVLink 3 and 4, and none of PCIe.
      values[i].result = values[i].field == 138 || values[i].field == 139 ? 0 : not_supported;
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

// A driver that tells its counters for the links 0 and 2 of 3, and no sum of them.
template <unsigned sent, unsigned received>
NvmlFunctions links_only() {
  NvmlFunctions f = one_gpu();
  f.field_values = [](NvmlFunctions::Device, int count, NvmlFunctions::FieldValue* values) {
    for (int i = 0; i < count; ++i) {
      NvmlFunctions::FieldValue& value = values[i];
      const bool counter = value.field == sent || value.field == received;
      value.value_type = 3;
      value.result = value.field == 91 || (counter && (value.scope == 0 || value.scope == 2)) ? 0 : not_supported;
      value.as_unsigned_long_long = value.field == 91 ? 3 : value.field == sent ? 10 + value.scope : 20 + value.scope;
    }
    return 0;
  };
  return f;
}

TEST(Nvml, AddsUpLinksWhereTheDriverDoesNot) {
  const GpuSnapshot old_counters = Nvml(links_only<138, 139>()).snapshot("0000:1b:00");
  EXPECT_EQ(old_counters.nvlink_sent_bytes, 22U * 1024);
  EXPECT_EQ(old_counters.nvlink_received_bytes, 42U * 1024);
  const GpuSnapshot nvlink5 = Nvml(links_only<202, 204>()).snapshot("0000:1b:00");
  EXPECT_EQ(nvlink5.nvlink_sent_bytes, 22U);
  EXPECT_EQ(nvlink5.nvlink_received_bytes, 42U);
}

TEST(Nvml, TakesTheSumOfNvLink5WhereTheDriverHasIt) {
  NvmlFunctions f = one_gpu();
  f.field_values = [](NvmlFunctions::Device, int count, NvmlFunctions::FieldValue* values) {
    for (int i = 0; i < count; ++i) {
      const bool known = (values[i].field == 202 || values[i].field == 204) && values[i].scope == ~0U;
      values[i].value_type = 3;
      values[i].as_unsigned_long_long = values[i].field;
      values[i].result = known ? 0 : not_supported;
    }
    return 0;
  };
  const GpuSnapshot s = Nvml(f).snapshot("0000:1b:00");
  EXPECT_EQ(s.nvlink_sent_bytes, 202U);
  EXPECT_EQ(s.nvlink_received_bytes, 204U);
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

TEST_F(CpusNear, AsksTheDriverWhereTheDeviceTreeDoesNotTell) {
  NvmlFunctions f = one_gpu();
  f.cpu_affinity = [](NvmlFunctions::Device, unsigned words, unsigned long* mask) {
    std::fill(mask, mask + words, 0UL);
    mask[0] = 0b1011;
    mask[1] = 1;
    return 0;
  };
  const Nvml nvml(f);
  EXPECT_EQ(cpus_near("0000:1b:00", root_, &nvml), (std::vector<int>{0, 1, 3, 64}));
  EXPECT_TRUE(cpus_near("0000:99:00", root_, &nvml).empty());
  near("7\n");
  EXPECT_EQ(cpus_near("0000:1b:00", root_, &nvml), std::vector<int>{7});
}

TEST_F(CpusNear, IsEmptyWhereTheSystemDoesNotTell) {
  EXPECT_TRUE(near("\n").empty());
  EXPECT_TRUE(near("nonsense\n").empty());
  EXPECT_TRUE(cpus_near("0000:99:00", root_).empty());
}

}  // namespace
}  // namespace busbw

// What the management library of a real machine tells about GPU 0.
#include <gtest/gtest.h>

#include "engine/platform/device.h"
#include "engine/platform/nvml.h"

namespace busbw {
namespace {

TEST(NvmlOnGpu, FindsTheGpuThatCudaNamesAndReadsItsClock) {
  std::string why_not;
  const std::unique_ptr<Platform> platform = make_cuda_platform(why_not);
  if (platform == nullptr) GTEST_SKIP() << "no GPU: " << why_not;
  const Nvml* nvml = Nvml::of_this_machine(why_not);
  ASSERT_NE(nvml, nullptr) << why_not;
  const std::unique_ptr<Device> device = platform->open(0);
  const GpuSnapshot s = nvml->snapshot(device->info().bus_id);
  ASSERT_TRUE(s.sm_clock_mhz) << device->info().bus_id;
  EXPECT_GT(*s.sm_clock_mhz, 0U);
  EXPECT_LE(*s.sm_clock_mhz, s.sm_clock_max_mhz.value_or(10'000));
  EXPECT_TRUE(s.throttle_reasons);
}

}  // namespace
}  // namespace busbw

// What a machine or a build without CUDA is told.
#include <gtest/gtest.h>

#include "engine/platform/cuda_image.h"
#include "engine/platform/device.h"

namespace busbw {
namespace {

TEST(CudaPlatform, IsThereOrSaysWhyNotAndWhatToTry) {
  std::string why_not;
  const std::unique_ptr<Platform> platform = make_cuda_platform(why_not);
  if (platform != nullptr) {
    EXPECT_GT(platform->device_count(), 0);
    EXPECT_TRUE(platform->asynchronous());
    return;
  }
  // Reason; advice.
  EXPECT_NE(why_not.find("; "), std::string::npos) << why_not;
}

TEST(KernelImage, KnowsTheCompilerThatBuiltItWhereThereIsOne) {
  EXPECT_EQ(kernel_image() == nullptr, kernel_image_cuda_version() == 0);
  if (kernel_image() != nullptr) {
    EXPECT_GE(kernel_image_cuda_version(), 12000);
  }
}

}  // namespace
}  // namespace busbw

// What a build without a CUDA compiler answers.
#include "engine/platform/device.h"

namespace busbw {

std::unique_ptr<Platform> make_cuda_platform(std::string& why_not) {
  why_not = "this busbw was built without a CUDA compiler";
  return nullptr;
}

}  // namespace busbw

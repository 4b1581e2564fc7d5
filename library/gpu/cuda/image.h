// The compiled kernels inside this library.
#pragma once

namespace busbw::gpu {

// How many images there are: one for each file of kernels; none in a build without a CUDA compiler.
int gpu_kernel_image_count();
const void* gpu_kernel_image(int index);

}  // namespace busbw::gpu

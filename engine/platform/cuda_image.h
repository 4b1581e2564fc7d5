// The pattern kernels as the CUDA compiler built them, embedded in the program.
#pragma once

namespace busbw {

// Null in a build without a CUDA compiler.
const void* kernel_image();

// 1000 * major + 10 * minor of the CUDA compiler that built the image, as cuDriverGetVersion counts; 0 without one.
int kernel_image_cuda_version();

}  // namespace busbw

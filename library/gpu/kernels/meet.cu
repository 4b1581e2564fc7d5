// Entry point of the meeting.
#include "library/gpu/kernels/meet.h"

extern "C" __global__ void __launch_bounds__(32, 1) busbw_meet(const __grid_constant__ busbw::gpu::KernelArguments a) {
  busbw::gpu::meet(a);
}

// What of a machine's system changes with an upgrade and not with a run.
#pragma once

#include <string>

namespace busbw {

// The running kernel's release, such as 6.8.0-1021-azure; empty where the system does not tell.
std::string kernel_release();

// The version of NVIDIA's kernel driver, such as 580.95.05, from the file in which it says so; empty where it is not
// loaded. Nothing is started and no GPU is touched.
std::string gpu_driver_version(const char* path = "/sys/module/nvidia/version");

}  // namespace busbw

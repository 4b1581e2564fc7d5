// What of a machine's system changes with an upgrade and not with a run.
#pragma once

#include <string>

namespace busbw {

// The running kernel's release, such as 6.8.0-1021-azure; empty where the system does not tell.
std::string kernel_release();

// The version of NVIDIA's kernel driver, such as 580.95.05, from the file in which it says so; empty where it is not
// loaded. Nothing is started and no GPU is touched.
std::string gpu_driver_version(const char* path = "/sys/module/nvidia/version");

// Sixteen hexadecimal digits that stay when a machine gets another name: of the UUIDs of its GPUs, else of the
// addresses that its network adapters were made with. Empty where neither is seen, as in many containers: a name that
// several machines have would be worse than none.
std::string hardware_identity(const std::string& root = "");

}  // namespace busbw

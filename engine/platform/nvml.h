// What explains a GPU's number: clocks, throttling, temperature, power, traffic counters and who else is on it.
//
// Read through NVIDIA's management library, found at run time. A snapshot takes some hundred microseconds: before and
// after a case, never inside the timed region.
#pragma once

#include <string>
#include <vector>

#include "engine/core/gpu_snapshot.h"

namespace busbw {

// NVML's functions; null where the library lacks one. Hand-declared from its documented ABI.
struct NvmlFunctions {
  using Device = struct nvmlDevice_st*;
  struct FieldValue {
    unsigned field = 0;
    unsigned scope = 0;
    long long timestamp = 0;
    long long latency_us = 0;
    unsigned value_type = 0;
    int result = 0;
    union {
      double as_double;
      unsigned as_unsigned;
      unsigned long long as_unsigned_long_long = 0;
    };
  };

  int (*init)();
  int (*device_by_bus_id)(const char* bus_id, Device* device);
  int (*clock)(Device device, int which, unsigned* mhz);
  int (*max_clock)(Device device, int which, unsigned* mhz);
  int (*throttle_reasons)(Device device, unsigned long long* reasons);
  int (*temperature)(Device device, int sensor, unsigned* celsius);
  int (*power)(Device device, unsigned* milliwatts);
  int (*power_limit)(Device device, unsigned* milliwatts);
  int (*field_values)(Device device, int count, FieldValue* values);
  int (*pcie_replays)(Device device, unsigned* count);
  int (*pcie_generation)(Device device, unsigned* generation);
  int (*pcie_width)(Device device, unsigned* width);
  int (*compute_processes)(Device device, unsigned* count, void* processes);
  int (*cpu_affinity)(Device device, unsigned words, unsigned long* mask);
};

class Nvml {
 public:
  explicit Nvml(const NvmlFunctions& functions) : functions_(functions) {}

  // This machine's, loaded once. Null where there is none that can be used, and then `why_not` is a sentence.
  static const Nvml* of_this_machine(std::string& why_not);

  // `bus_id` as in DeviceInfo: dddd:bb:dd. All fields are absent for an unknown GPU. May be called from any thread.
  GpuSnapshot snapshot(const std::string& bus_id) const;

  // Processors near the GPU, in ascending order; empty where the driver does not tell.
  std::vector<int> cpus_near(const std::string& bus_id) const;

 private:
  void read_counters(NvmlFunctions::Device device, GpuSnapshot& snapshot) const;
  // NVLink's bytes where the driver tells them for each link only.
  void add_up_links(NvmlFunctions::Device device, unsigned links, GpuSnapshot& snapshot) const;

  NvmlFunctions::Device find(const std::string& bus_id) const;

  NvmlFunctions functions_;
};

// Processors on the NUMA node to which the GPU is attached, in ascending order, as the system's device tree has them,
// else the driver. Empty where neither tells.
std::vector<int> cpus_near(const std::string& bus_id, const std::string& sysfs = "/sys", const Nvml* nvml = nullptr);

}  // namespace busbw

// What one GPU tells about itself at one moment: clocks, throttling, temperature, power, traffic, who else is on it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace busbw {

// Fields are absent where the driver, the GPU or the container does not tell.
struct GpuSnapshot {
  std::optional<unsigned> sm_clock_mhz;
  std::optional<unsigned> sm_clock_max_mhz;
  std::optional<unsigned> memory_clock_mhz;
  std::optional<std::uint64_t> throttle_reasons;  // bits, see throttle_names
  std::optional<unsigned> temperature_celsius;
  std::optional<double> power_watts;
  std::optional<double> power_limit_watts;
  // Counters since the driver was loaded: differences of two snapshots are traffic.
  std::optional<std::uint64_t> nvlink_sent_bytes;
  std::optional<std::uint64_t> nvlink_received_bytes;
  std::optional<std::uint64_t> pcie_sent_bytes;
  std::optional<std::uint64_t> pcie_received_bytes;
  std::optional<std::uint64_t> pcie_replays;
  std::optional<unsigned> pcie_generation;  // as negotiated now
  std::optional<unsigned> pcie_width;
  std::optional<unsigned> compute_processes;  // this one counts
};

// Names of the reasons that are set: gpu_idle, sw_power_cap, hw_thermal_slowdown, ...
std::vector<std::string> throttle_names(std::uint64_t reasons);

// Whether the reasons hold clocks below what the workload asks for. Idleness and clocks set on purpose do not count.
bool is_throttled(std::uint64_t reasons);

// Calls visit(name, field) for every field, under the names of the record.
template <typename Snapshot, typename Visit>
void visit_fields(Snapshot& s, const Visit& visit) {
  visit("sm_clock_mhz", s.sm_clock_mhz);
  visit("sm_clock_max_mhz", s.sm_clock_max_mhz);
  visit("memory_clock_mhz", s.memory_clock_mhz);
  visit("throttle_reasons", s.throttle_reasons);
  visit("temperature_celsius", s.temperature_celsius);
  visit("power_watts", s.power_watts);
  visit("power_limit_watts", s.power_limit_watts);
  visit("nvlink_sent_bytes", s.nvlink_sent_bytes);
  visit("nvlink_received_bytes", s.nvlink_received_bytes);
  visit("pcie_sent_bytes", s.pcie_sent_bytes);
  visit("pcie_received_bytes", s.pcie_received_bytes);
  visit("pcie_replays", s.pcie_replays);
  visit("pcie_generation", s.pcie_generation);
  visit("pcie_width", s.pcie_width);
  visit("compute_processes", s.compute_processes);
}

// One line of text, and back: how snapshots travel between processes. A line that another process spoiled reads as a
// GPU that tells nothing.
std::string to_line(const GpuSnapshot& snapshot);
GpuSnapshot from_line(const std::string& line);

// A rank's GPU before and after a case.
struct GpuReading {
  int rank = 0;
  int own_processes = 1;  // of this job, on this GPU
  GpuSnapshot before;
  GpuSnapshot after;
};

// What a reading tells against the figures beside it, one sentence for each cause: clocks held down, GPUs shared with
// other processes.
std::vector<std::string> warnings_of(const std::vector<GpuReading>& readings);

// A case's readings in a line for a person, as ranges over the ranks.
std::string in_words(const std::vector<GpuReading>& readings);

}  // namespace busbw

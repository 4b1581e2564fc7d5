// Calls of NVIDIA's management library; what fails becomes an absent field.
#include "engine/platform/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>

#include "engine/core/error.h"
#include "engine/platform/affinity.h"

namespace busbw {
namespace {

constexpr int success = 0;
constexpr int not_supported = 3;
constexpr int insufficient_size = 7;
constexpr int clock_sm = 1;
constexpr int clock_memory = 2;
constexpr int sensor_gpu = 0;

// Field identifiers. The scope of a link's field is the number of the link, or all of them.
constexpr unsigned nvlink_count = 91;
constexpr unsigned pcie_sent = 197;
constexpr unsigned pcie_received = 198;
constexpr unsigned all_links = std::numeric_limits<unsigned>::max();
constexpr unsigned most_links = 36;

// Counters of NVLink traffic, in the order of preference. NVLink 5 (Blackwell) has the second, and not every driver
// adds it up over the links.
struct LinkCounters {
  unsigned sent;
  unsigned received;
  unsigned unit_bytes;
};
constexpr std::array<LinkCounters, 2> link_counters{{{138, 139, 1024}, {202, 204, 1}}};

template <typename Function>
void find(void* handle, const char* symbol, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(handle, symbol));
}

struct LoadedNvml {
  NvmlFunctions functions{};
  std::string why_not;
};

LoadedNvml load_nvml() {
  LoadedNvml loaded;
  // Never closed: handles of devices stay valid until the process ends.
  void* handle = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = dlerror();
    loaded.why_not = format(
        "the driver's management library did not load (%s); in a container, start it with the driver capability "
        "utility",
        reason != nullptr ? reason : "libnvidia-ml.so.1");
    return loaded;
  }
  NvmlFunctions& f = loaded.functions;
  find(handle, "nvmlInit_v2", f.init);
  find(handle, "nvmlDeviceGetHandleByPciBusId_v2", f.device_by_bus_id);
  find(handle, "nvmlDeviceGetClockInfo", f.clock);
  find(handle, "nvmlDeviceGetMaxClockInfo", f.max_clock);
  // Renamed in driver 535, with the same meaning.
  find(handle, "nvmlDeviceGetCurrentClocksEventReasons", f.throttle_reasons);
  if (f.throttle_reasons == nullptr) find(handle, "nvmlDeviceGetCurrentClocksThrottleReasons", f.throttle_reasons);
  find(handle, "nvmlDeviceGetTemperature", f.temperature);
  find(handle, "nvmlDeviceGetPowerUsage", f.power);
  find(handle, "nvmlDeviceGetEnforcedPowerLimit", f.power_limit);
  find(handle, "nvmlDeviceGetFieldValues", f.field_values);
  find(handle, "nvmlDeviceGetPcieReplayCounter", f.pcie_replays);
  find(handle, "nvmlDeviceGetCurrPcieLinkGeneration", f.pcie_generation);
  find(handle, "nvmlDeviceGetCurrPcieLinkWidth", f.pcie_width);
  find(handle, "nvmlDeviceGetComputeRunningProcesses_v3", f.compute_processes);
  find(handle, "nvmlDeviceGetCpuAffinity", f.cpu_affinity);
  if (f.init == nullptr || f.device_by_bus_id == nullptr) {
    loaded.why_not = "the driver's management library is too old: it has no nvmlDeviceGetHandleByPciBusId_v2";
  } else if (const int result = f.init(); result != success) {
    loaded.why_not = format("nvmlInit failed with error %d; see whether nvidia-smi works", result);
  }
  return loaded;
}

// The value that a call with one result gives, or nothing.
template <typename Value, typename Function, typename... Arguments>
std::optional<Value> ask(Function* function, Arguments... arguments) {
  Value value{};
  if (function == nullptr || function(arguments..., &value) != success) return std::nullopt;
  return value;
}

std::optional<double> watts(std::optional<unsigned> milliwatts) {
  if (!milliwatts) return std::nullopt;
  return *milliwatts * 1e-3;
}

std::optional<std::uint64_t> integer_of(const NvmlFunctions::FieldValue& value) {
  if (value.result != success) return std::nullopt;
  switch (value.value_type) {
    case 0:
      return static_cast<std::uint64_t>(value.as_double);
    case 1:
      return value.as_unsigned;
    case 2:
    case 3:
      return value.as_unsigned_long_long;
    default:
      return std::nullopt;  // signed and short types, which no counter has
  }
}

NvmlFunctions::FieldValue field(unsigned which, unsigned scope = 0) {
  NvmlFunctions::FieldValue value{};
  value.field = which;
  value.scope = scope;
  // What a driver leaves alone is not an answer.
  value.result = not_supported;
  return value;
}

std::optional<std::uint64_t> times(std::optional<std::uint64_t> count, unsigned unit) {
  if (!count) return std::nullopt;
  return *count * unit;
}

std::optional<std::uint64_t> plus(std::optional<std::uint64_t> sum, std::optional<std::uint64_t> more) {
  return more ? sum.value_or(0) + *more : sum;
}

}  // namespace

const Nvml* Nvml::of_this_machine(std::string& why_not) {
  static const LoadedNvml loaded = load_nvml();
  static const Nvml nvml(loaded.functions);
  why_not = loaded.why_not;
  return why_not.empty() ? &nvml : nullptr;
}

NvmlFunctions::Device Nvml::find(const std::string& bus_id) const {
  NvmlFunctions::Device device = nullptr;
  return functions_.device_by_bus_id((bus_id + ".0").c_str(), &device) == success ? device : nullptr;
}

std::vector<int> Nvml::cpus_near(const std::string& bus_id) const {
  constexpr unsigned bits = 8 * sizeof(unsigned long);
  constexpr unsigned most_processors = 1U << 13;
  std::vector<unsigned long> mask(most_processors / bits);
  const NvmlFunctions::Device device = find(bus_id);
  std::vector<int> cpus;
  if (device == nullptr || functions_.cpu_affinity == nullptr) return cpus;
  if (functions_.cpu_affinity(device, static_cast<unsigned>(mask.size()), mask.data()) != success) return cpus;
  for (unsigned cpu = 0; cpu < most_processors; ++cpu)
    if ((mask[cpu / bits] >> (cpu % bits) & 1U) != 0) cpus.push_back(static_cast<int>(cpu));
  return cpus;
}

GpuSnapshot Nvml::snapshot(const std::string& bus_id) const {
  GpuSnapshot s;
  const NvmlFunctions::Device device = find(bus_id);
  if (device == nullptr) return s;
  s.sm_clock_mhz = ask<unsigned>(functions_.clock, device, clock_sm);
  s.sm_clock_max_mhz = ask<unsigned>(functions_.max_clock, device, clock_sm);
  s.memory_clock_mhz = ask<unsigned>(functions_.clock, device, clock_memory);
  s.throttle_reasons = ask<unsigned long long>(functions_.throttle_reasons, device);
  s.temperature_celsius = ask<unsigned>(functions_.temperature, device, sensor_gpu);
  s.power_watts = watts(ask<unsigned>(functions_.power, device));
  s.power_limit_watts = watts(ask<unsigned>(functions_.power_limit, device));
  s.pcie_replays = ask<unsigned>(functions_.pcie_replays, device);
  s.pcie_generation = ask<unsigned>(functions_.pcie_generation, device);
  s.pcie_width = ask<unsigned>(functions_.pcie_width, device);
  read_counters(device, s);
  if (functions_.compute_processes != nullptr) {
    // Asking with no room gives the number alone.
    unsigned count = 0;
    const int result = functions_.compute_processes(device, &count, nullptr);
    if (result == success || result == insufficient_size) s.compute_processes = count;
  }
  return s;
}

void Nvml::read_counters(NvmlFunctions::Device device, GpuSnapshot& s) const {
  if (functions_.field_values == nullptr) return;
  std::vector<NvmlFunctions::FieldValue> values{field(pcie_sent), field(pcie_received), field(nvlink_count)};
  for (const LinkCounters& counters : link_counters) {
    values.push_back(field(counters.sent, all_links));
    values.push_back(field(counters.received, all_links));
  }
  if (functions_.field_values(device, static_cast<int>(values.size()), values.data()) != success) return;
  s.pcie_sent_bytes = integer_of(values[0]);
  s.pcie_received_bytes = integer_of(values[1]);
  for (std::size_t i = 0; i < link_counters.size(); ++i) {
    s.nvlink_sent_bytes = times(integer_of(values[3 + 2 * i]), link_counters[i].unit_bytes);
    s.nvlink_received_bytes = times(integer_of(values[4 + 2 * i]), link_counters[i].unit_bytes);
    if (s.nvlink_sent_bytes || s.nvlink_received_bytes) return;
  }
  const std::uint64_t links = std::min<std::uint64_t>(integer_of(values[2]).value_or(most_links), most_links);
  add_up_links(device, static_cast<unsigned>(links), s);
}

void Nvml::add_up_links(NvmlFunctions::Device device, unsigned links, GpuSnapshot& s) const {
  for (const LinkCounters& counters : link_counters) {
    std::vector<NvmlFunctions::FieldValue> values;
    for (unsigned link = 0; link < links; ++link) {
      values.push_back(field(counters.sent, link));
      values.push_back(field(counters.received, link));
    }
    if (values.empty()) return;
    if (functions_.field_values(device, static_cast<int>(values.size()), values.data()) != success) return;
    for (std::size_t i = 0; i < values.size(); i += 2) {
      s.nvlink_sent_bytes = plus(s.nvlink_sent_bytes, times(integer_of(values[i]), counters.unit_bytes));
      s.nvlink_received_bytes = plus(s.nvlink_received_bytes, times(integer_of(values[i + 1]), counters.unit_bytes));
    }
    if (s.nvlink_sent_bytes || s.nvlink_received_bytes) return;
  }
}

std::vector<int> cpus_near(const std::string& bus_id, const std::string& sysfs, const Nvml* nvml) {
  std::ifstream file(sysfs + "/bus/pci/devices/" + bus_id + ".0/local_cpulist");
  std::string list;
  std::getline(file, list);
  std::vector<int> cpus = cpus_of_list(list);
  return cpus.empty() && nvml != nullptr ? nvml->cpus_near(bus_id) : cpus;
}

}  // namespace busbw

// Calls of NVIDIA's management library; what fails becomes an absent field.
#include "engine/platform/nvml.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>

namespace busbw {
namespace {

constexpr int success = 0;
constexpr int insufficient_size = 7;
constexpr int clock_sm = 1;
constexpr int clock_memory = 2;
constexpr int sensor_gpu = 0;

// Field identifiers, and the scope that sums over all links.
constexpr unsigned nvlink_sent_kib = 138;
constexpr unsigned nvlink_received_kib = 139;
constexpr unsigned pcie_sent = 197;
constexpr unsigned pcie_received = 198;
constexpr unsigned all_links = std::numeric_limits<unsigned>::max();

struct Reason {
  std::uint64_t bit;
  const char* name;
  bool slows;
};
constexpr std::array<Reason, 9> reasons_known = {{
    {0x001, "gpu_idle", false},
    {0x002, "applications_clocks_setting", false},
    {0x004, "sw_power_cap", true},
    {0x008, "hw_slowdown", true},
    {0x010, "sync_boost", false},
    {0x020, "sw_thermal_slowdown", true},
    {0x040, "hw_thermal_slowdown", true},
    {0x080, "hw_power_brake_slowdown", true},
    {0x100, "display_clock_setting", false},
}};

template <typename Function>
void find(void* handle, const char* symbol, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(handle, symbol));
}

std::optional<NvmlFunctions> load() {
  // Never closed: handles of devices stay valid until the process ends.
  void* handle = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return std::nullopt;
  NvmlFunctions f{};
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
  if (f.init == nullptr || f.device_by_bus_id == nullptr || f.init() != success) return std::nullopt;
  return f;
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

std::optional<std::uint64_t> from_kib(std::optional<std::uint64_t> kib) {
  if (!kib) return std::nullopt;
  return *kib * 1024;
}

}  // namespace

std::vector<std::string> throttle_names(std::uint64_t reasons) {
  std::vector<std::string> names;
  for (const Reason& reason : reasons_known)
    if ((reasons & reason.bit) != 0) names.emplace_back(reason.name);
  return names;
}

bool is_throttled(std::uint64_t reasons) {
  for (const Reason& reason : reasons_known)
    if (reason.slows && (reasons & reason.bit) != 0) return true;
  return false;
}

const Nvml* Nvml::of_this_machine() {
  static const std::optional<NvmlFunctions> functions = load();
  if (!functions) return nullptr;
  static const Nvml nvml(*functions);
  return &nvml;
}

GpuSnapshot Nvml::snapshot(const std::string& bus_id) const {
  GpuSnapshot s;
  NvmlFunctions::Device device = nullptr;
  if (functions_.device_by_bus_id((bus_id + ".0").c_str(), &device) != success) return s;
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
  std::array<NvmlFunctions::FieldValue, 4> values{};
  values[0].field = nvlink_sent_kib;
  values[1].field = nvlink_received_kib;
  values[0].scope = values[1].scope = all_links;
  values[2].field = pcie_sent;
  values[3].field = pcie_received;
  if (functions_.field_values(device, static_cast<int>(values.size()), values.data()) != success) return;
  s.nvlink_sent_bytes = from_kib(integer_of(values[0]));
  s.nvlink_received_bytes = from_kib(integer_of(values[1]));
  s.pcie_sent_bytes = integer_of(values[2]);
  s.pcie_received_bytes = integer_of(values[3]);
}

std::vector<int> cpus_near(const std::string& bus_id, const std::string& sysfs) {
  std::ifstream file(sysfs + "/bus/pci/devices/" + bus_id + ".0/local_cpulist");
  std::string list;
  std::getline(file, list);
  std::vector<int> cpus;
  std::istringstream ranges(list);
  // "0-15,64-79"
  for (std::string range; std::getline(ranges, range, ',');) {
    char* rest = nullptr;
    const long first = std::strtol(range.c_str(), &rest, 10);
    if (rest == range.c_str() || first < 0) return {};
    const long last = *rest == '-' ? std::strtol(rest + 1, nullptr, 10) : first;
    constexpr long most_processors = 1 << 20;
    for (long cpu = first; cpu <= last && cpu < most_processors; ++cpu) cpus.push_back(static_cast<int>(cpu));
  }
  return cpus;
}

}  // namespace busbw

// Names of throttle reasons, readings as a line between processes, and readings in words.
#include "engine/core/gpu_snapshot.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <concepts>
#include <cstdlib>
#include <map>
#include <sstream>

#include "engine/core/error.h"
#include "engine/core/ranges.h"

namespace busbw {
namespace {

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

constexpr const char* absent = "-";

std::string text_of(std::integral auto value) { return std::to_string(value); }
std::string text_of(double value) { return format("%.17g", value); }

template <typename Value>
std::optional<Value> value_of(const std::string& text) {
  errno = 0;
  char* rest = nullptr;
  Value value{};
  if constexpr (std::is_floating_point_v<Value>) {
    value = std::strtod(text.c_str(), &rest);
  } else {
    value = static_cast<Value>(std::strtoull(text.c_str(), &rest, 10));
  }
  if (text.empty() || text.front() == '-' || *rest != '\0' || errno != 0) return std::nullopt;
  return value;
}

std::string slowing_names(std::uint64_t reasons) {
  std::string names;
  for (const Reason& reason : reasons_known)
    if (reason.slows && (reasons & reason.bit) != 0) names.append(names.empty() ? "" : ", ").append(reason.name);
  return names;
}

std::string who(const std::vector<int>& ranks) { return (ranks.size() == 1 ? "rank " : "ranks ") + ranges(ranks); }

// "12 to 15 W", "12 W", or nothing where no GPU tells.
template <typename Field>
std::string span_of(const std::vector<GpuReading>& readings, const Field& field, double scale, int decimals,
                    const char* unit) {
  std::optional<double> low, high;
  for (const GpuReading& reading : readings) {
    const auto value = field(reading);
    if (!value) continue;
    const double scaled = static_cast<double>(*value) * scale;
    low = std::min(low.value_or(scaled), scaled);
    high = std::max(high.value_or(scaled), scaled);
  }
  if (!low) return "";
  const std::string first = format("%.*f", decimals, *low);
  const std::string last = format("%.*f", decimals, *high);
  return first == last ? first + unit : first + " to " + last + unit;
}

using Counter = std::optional<std::uint64_t> GpuSnapshot::*;

// What a counter has grown by. A counter that fell was reset in between.
std::optional<std::uint64_t> growth(const GpuReading& reading, Counter counter) {
  const auto& before = reading.before.*counter;
  const auto& after = reading.after.*counter;
  if (!before || !after || *after < *before) return std::nullopt;
  return *after - *before;
}

std::string traffic(const std::vector<GpuReading>& readings, const char* link, Counter sent, Counter received) {
  const auto grown = [](Counter counter) { return [counter](const GpuReading& r) { return growth(r, counter); }; };
  const std::string out = span_of(readings, grown(sent), 1e-9, 2, " GB out");
  const std::string in = span_of(readings, grown(received), 1e-9, 2, " GB in");
  if (out.empty() && in.empty()) return "";
  return std::string(link) + " " + out + (out.empty() || in.empty() ? "" : ", ") + in;
}

}  // namespace

std::vector<std::string> throttle_names(std::uint64_t reasons) {
  std::vector<std::string> names;
  for (const Reason& reason : reasons_known)
    if ((reasons & reason.bit) != 0) names.emplace_back(reason.name);
  return names;
}

bool is_throttled(std::uint64_t reasons) { return !slowing_names(reasons).empty(); }

std::string to_line(const GpuSnapshot& snapshot) {
  std::string line;
  visit_fields(snapshot, [&](const char*, const auto& field) {
    line.append(line.empty() ? "" : " ").append(field ? text_of(*field) : absent);
  });
  return line;
}

GpuSnapshot from_line(const std::string& line) {
  GpuSnapshot snapshot;
  std::istringstream words(line);
  visit_fields(snapshot, [&]<typename Value>(const char*, std::optional<Value>& field) {
    std::string word;
    words >> word;
    field = value_of<Value>(word);
  });
  return snapshot;
}

std::vector<std::string> warnings_of(const std::vector<GpuReading>& readings) {
  std::map<std::string, std::vector<GpuReading>> held_down;
  std::vector<int> sharing;
  for (const GpuReading& reading : readings) {
    const std::string names = slowing_names(reading.after.throttle_reasons.value_or(0));
    if (!names.empty()) held_down[names].push_back(reading);
    if (reading.after.compute_processes.value_or(0) > static_cast<unsigned>(reading.own_processes))
      sharing.push_back(reading.rank);
  }
  std::vector<std::string> warnings;
  for (const auto& [names, slow] : held_down) {
    std::vector<int> ranks;
    for (const GpuReading& reading : slow) ranks.push_back(reading.rank);
    const auto clock = [](const GpuReading& r) { return r.after.sm_clock_mhz; };
    const std::string mhz = span_of(slow, clock, 1, 0, " MHz");
    warnings.push_back(format("the GPU of %s ran throttled (%s)%s", who(ranks).c_str(), names.c_str(),
                              mhz.empty() ? "" : (", SM clock " + mhz).c_str()));
  }
  if (!sharing.empty())
    warnings.push_back(format("another process computed on the GPU of %s; nvidia-smi names it", who(sharing).c_str()));
  return warnings;
}

std::string in_words(const std::vector<GpuReading>& readings) {
  const auto after = [&](auto field, const char* unit) {
    return span_of(readings, [field](const GpuReading& r) { return r.after.*field; }, 1, 0, unit);
  };
  std::vector<std::string> parts;
  if (const std::string mhz = after(&GpuSnapshot::sm_clock_mhz, " MHz"); !mhz.empty()) parts.push_back("SM " + mhz);
  if (const std::string mhz = after(&GpuSnapshot::memory_clock_mhz, " MHz"); !mhz.empty())
    parts.push_back("memory " + mhz);
  parts.push_back(after(&GpuSnapshot::temperature_celsius, " C"));
  parts.push_back(after(&GpuSnapshot::power_watts, " W"));
  parts.push_back(traffic(readings, "NVLink", &GpuSnapshot::nvlink_sent_bytes, &GpuSnapshot::nvlink_received_bytes));
  parts.push_back(traffic(readings, "PCIe", &GpuSnapshot::pcie_sent_bytes, &GpuSnapshot::pcie_received_bytes));
  std::string text;
  for (const std::string& part : parts)
    if (!part.empty()) text.append(text.empty() ? "" : "; ").append(part);
  return text.empty() ? "the GPUs tell nothing" : text;
}

}  // namespace busbw

// Reads the library's environment variables.
#include "library/gpu/choose/settings.h"

#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "library/common/failure.h"
#include "library/gpu/choose/choice_table.h"

namespace busbw::gpu {
namespace {

std::string value_of(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// Frameworks whose programs compute beside their collectives; a benchmark of collectives loads none of them.
constexpr const char* frameworks[] = {"/libtorch_cuda.so", "/libtorch_python.so", "/xla_cuda_plugin.so", "/libjax",
                                      "/libtensorflow"};

// Whether this process has loaded one.
bool in_a_framework() {
  const auto look = [](dl_phdr_info* object, std::size_t, void* found) {
    const bool is_one = std::any_of(std::begin(frameworks), std::end(frameworks), [&](const char* name) {
      return object->dlpi_name && std::strstr(object->dlpi_name, name);
    });
    if (is_one) *static_cast<bool*>(found) = true;
    return int(is_one);
  };
  bool found = false;
  dl_iterate_phdr(look, &found);
  return found;
}

// Of a variable that takes 0 or 1.
bool flag(const char* name, bool without, const char* meaning) {
  const std::string value = value_of(name);
  if (!value.empty() && value != "0" && value != "1") {
    throw Failure(ncclInvalidUsage, text("%s is '%.60s'; it takes 0 or 1 (%s).", name, value.c_str(), meaning));
  }
  return value.empty() ? without : value == "1";
}

Preference preference(const std::string& word) {
  if (word.empty()) return in_a_framework() ? Preference::overlap : Preference::latency;
  for (const Preference one : {Preference::latency, Preference::overlap}) {
    if (word == name(one)) return one;
  }
  throw Failure(ncclInvalidUsage,
                text("BUSBW_PREFER is '%.60s'; it takes latency (the fastest call alone) or overlap (the fastest step "
                     "of a program that computes beside its collectives).",
                     word.c_str()));
}

}  // namespace

Settings Settings::from_environment() {
  Settings settings;
  const std::string enabled = value_of("BUSBW_GPU");
  if (!enabled.empty() && enabled != "0" && enabled != "1") {
    throw Failure(ncclInvalidUsage,
                  text("BUSBW_GPU is '%s'; it takes 0 (everything goes to NCCL) or 1.", enabled.c_str()));
  }
  settings.enabled = enabled != "0";
  settings.check = flag("BUSBW_CHECK", false, "NCCL does every call too, and the results are compared");
  settings.slim = flag("BUSBW_SLIM", false, "staged copies take kernels that run beside products");
  settings.lends = flag("BUSBW_LEND", true, "peers may read from this rank's own buffers");
  const std::string log = value_of("BUSBW_GPU_LOG");
  if (!log.empty() && log != "0" && log != "1" && log != "2") {
    throw Failure(ncclInvalidUsage,
                  text("BUSBW_GPU_LOG is '%s'; it takes 0 (nothing), 1 (a line for each communicator) "
                       "or 2 (one for each change of algorithm too).",
                       log.c_str()));
  }
  if (!log.empty()) settings.log = LogLevel(log[0] - '0');
  const std::string timeout = value_of("BUSBW_GPU_TIMEOUT");
  if (!timeout.empty()) {
    char* end = nullptr;
    settings.timeout_seconds = std::strtod(timeout.c_str(), &end);
    if (*end != '\0' || !(settings.timeout_seconds > 0 && settings.timeout_seconds < 1e6)) {
      throw Failure(ncclInvalidUsage,
                    text("BUSBW_GPU_TIMEOUT is '%s'; it takes a number of seconds.", timeout.c_str()));
    }
  }
  // What is no number is CUDA's matter.
  settings.queues = std::max(0, std::atoi(value_of("CUDA_DEVICE_MAX_CONNECTIONS").c_str()));
  const std::string shared = value_of("BUSBW_GPU_SHARED");
  if (!shared.empty()) {
    if (shared.size() != 1 || shared[0] < '1' || shared[0] > '8') {
      throw Failure(ncclInvalidUsage,
                    text("BUSBW_GPU_SHARED is '%.60s'; it takes 1 to 8, the ranks that share a GPU.", shared.c_str()));
    }
    settings.sharers = shared[0] - '0';
  }
  settings.prefer = preference(value_of("BUSBW_PREFER"));
  settings.algorithm = value_of("BUSBW_ALGORITHM");
  if (settings.enabled) settings.table = table_text_from_environment();
  return settings;
}

}  // namespace busbw::gpu

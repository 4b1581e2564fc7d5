// Reads the library's environment variables.
#include "library/gpu/choose/settings.h"

#include <cstdlib>

#include "library/common/failure.h"
#include "library/gpu/choose/choice_table.h"

namespace busbw::gpu {
namespace {

std::string value_of(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
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
  settings.algorithm = value_of("BUSBW_ALGORITHM");
  if (settings.enabled) settings.table = table_text_from_environment();
  return settings;
}

}  // namespace busbw::gpu

// Reads the library's environment variables.
#include "library/gpu/settings.h"

#include <cstdlib>

#include "library/common/failure.h"

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
  settings.real_nccl = value_of("BUSBW_REAL_NCCL");
  settings.algorithm = value_of("BUSBW_ALGORITHM");
  settings.table = value_of("BUSBW_TABLE");
  return settings;
}

}  // namespace busbw::gpu

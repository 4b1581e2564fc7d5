// Reads the library's environment variables.
#include "library/cpu/settings.h"

#include <cstdlib>
#include <string>

#include "library/common/failure.h"

namespace busbw::cpu {
namespace {

double number(const char* name, double otherwise, double least) {
  const char* value = std::getenv(name);
  if (!value || !*value) return otherwise;
  char* end = nullptr;
  const double parsed = std::strtod(value, &end);
  if (*end != '\0' || !(parsed >= least)) {
    throw Failure(ncclInvalidUsage, text("%s is '%s'; it takes a number of at least %g.", name, value, least));
  }
  return parsed;
}

Stores stores_named(const std::string& name) {
  if (name.empty() || name == "auto") return Stores::automatic;
  if (name == "cached") return Stores::cached;
  if (name == "streaming") return Stores::streaming;
  throw Failure(ncclInvalidUsage, text("BUSBW_CPU_STORES is '%s'; it takes auto, cached or streaming.", name.c_str()));
}

}  // namespace

Settings Settings::from_environment() {
  Settings settings;
  settings.timeout_seconds = number("BUSBW_CPU_TIMEOUT", settings.timeout_seconds, 0.001);
  if (const char* threshold = std::getenv("BUSBW_CPU_THRESHOLD"); threshold && *threshold) {
    settings.short_max_bytes = std::size_t(number("BUSBW_CPU_THRESHOLD", 0, 0));
    settings.short_before_direct_bytes = settings.short_max_bytes;
  }
  settings.chunk_bytes = std::size_t(number("BUSBW_CPU_CHUNK", double(settings.chunk_bytes), 1024));
  const char* algorithm = std::getenv("BUSBW_CPU_ALGO");
  const std::string name = algorithm ? algorithm : "";
  if (name == "staged") {
    settings.force_staged = true;
    settings.short_before_direct_bytes = settings.short_max_bytes;
  } else if (name == "direct") {
    settings.short_max_bytes = 0;
  } else if (!name.empty() && name != "auto") {
    throw Failure(ncclInvalidUsage, text("BUSBW_CPU_ALGO is '%s'; it takes auto, staged or direct.", name.c_str()));
  }
  const char* stores = std::getenv("BUSBW_CPU_STORES");
  settings.stores = stores_named(stores ? stores : "");
  return settings;
}

}  // namespace busbw::cpu

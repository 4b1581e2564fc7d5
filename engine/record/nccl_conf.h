// The files nccl.conf: what a library sets by itself where the environment does not.
#pragma once

#include <string>
#include <vector>

#include "engine/core/result.h"

namespace busbw {

struct ConfFile {
  std::string name;  // as a record names it: ~/.nccl.conf wherever that home is
  std::string path;
};

// The files that an NCCL of this version (what ncclGetVersion returns) looks for, in its order, there or not.
std::vector<ConfFile> conf_files(const char* const* environment, int version_code);

// Every variable that they set, values as they stand: for this process alone.
std::vector<ConfSetting> read_confs(const char* const* environment, int version_code);

// Of these what may be kept: relevant variables without secrets. A sentence in `notes` where more are set than are
// kept.
std::vector<ConfSetting> conf_settings(const char* const* environment, int version_code,
                                       std::vector<std::string>& notes);

}  // namespace busbw

// What the environment may change in the library: few knobs, each documented in docs/reference/gpu-library.md. They
// must be the same for every rank of a job, as NCCL's own must.
#pragma once

#include <string>

namespace busbw::gpu {

enum class LogLevel { none, communicators, choices };

struct Settings {
  // BUSBW_GPU=0: everything goes to NCCL, as if this library were not there.
  bool enabled = true;
  // BUSBW_REAL_NCCL: the file of the NCCL behind this library; empty: the one that the program uses.
  std::string real_nccl;
  // BUSBW_ALGORITHM and BUSBW_TABLE, as choice.h reads them.
  std::string algorithm;
  std::string table;
  // BUSBW_GPU_LOG
  LogLevel log = LogLevel::none;

  // Throws a Failure that names the variable if one has no usable value.
  static Settings from_environment();
};

}  // namespace busbw::gpu

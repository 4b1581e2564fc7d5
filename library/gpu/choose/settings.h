// What the environment may change in the library: few knobs, each documented in docs/reference/gpu-library.md. They
// must be the same for every rank of a job, as NCCL's own must.
#pragma once

#include <string>

#include "library/gpu/choose/choice.h"

namespace busbw::gpu {

enum class LogLevel { none, communicators, choices };

struct Settings {
  // BUSBW_GPU=0: everything goes to NCCL, as if this library were not there.
  bool enabled = true;
  // BUSBW_ALGORITHM, and the text of the table that BUSBW_TABLE names, as choice_table.h describes them.
  std::string algorithm;
  // BUSBW_PREFER=latency or overlap; without it, overlap in a program that computes beside its collectives.
  Preference prefer = Preference::latency;
  std::string table;
  // BUSBW_GPU_TIMEOUT: how long ranks wait for each other when a communicator is made, before NCCL does it all.
  double timeout_seconds = 60;
  // BUSBW_CHECK=1: NCCL does every call too, and the results are compared.
  bool check = false;
  // CUDA_DEVICE_MAX_CONNECTIONS, which CUDA reads: hardware queues for a GPU's streams; 0 without it, which gives 8.
  int queues = 0;
  // BUSBW_GPU_SHARED: as many ranks may share a GPU. Their kernels must be on it at once, so each has its part of it.
  int sharers = 1;
  // BUSBW_SLIM=1: staged copies take kernels that run beside products (kernels/slim.h).
  bool slim = false;
  // BUSBW_LEND=0: peers read nothing from this rank's own buffers (join/lending.h). May differ between ranks.
  bool lends = true;
  // BUSBW_GPU_LOG
  LogLevel log = LogLevel::none;

  // Throws a Failure that names the variable if one has no usable value.
  static Settings from_environment();
};

}  // namespace busbw::gpu

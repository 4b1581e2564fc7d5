// The functions that this library has beside NCCL's (include/busbw/busbw_gpu.h). No exception leaves this file.
#include <memory>
#include <string>

#include "busbw/busbw_gpu.h"
#include "library/common/failure.h"
#include "library/common/nccl/functions.h"
#include "library/common/nccl/last_error.h"
#include "library/common/nccl/real_nccl.h"
#include "library/gpu/api/group.h"
#include "library/gpu/api/registry.h"
#include "library/gpu/run/norm.h"

using namespace busbw;       // NOLINT: the exported functions below are C
using namespace busbw::gpu;  // NOLINT

// Of this library, in api.cc.
extern "C" ncclAllReduce_t ncclAllReduce;

namespace {

[[noreturn]] void refuse(ncclResult_t code, const std::string& why) {
  throw Failure(code, "busbwAllReduceRmsNorm: " + why + ".");
}

std::shared_ptr<Device> device_of(ncclComm_t comm) {
  int ordinal = -1;
  if (!real_nccl().cu_device || call_nccl(real_nccl().cu_device, comm, &ordinal) != ncclSuccess) {
    refuse(ncclInvalidArgument, "NCCL does not know the GPU of this communicator");
  }
  if (const std::string why = devices().why_none(); !why.empty()) refuse(ncclInvalidUsage, why);
  std::shared_ptr<Device> device = devices().open(ordinal);
  if (const std::string why = device->why_not(); !why.empty()) refuse(ncclInvalidUsage, why);
  return device;
}

ncclResult_t all_reduce_norm(const NormCall& call, ncclComm_t comm) {
  if (!comm) refuse(ncclInvalidArgument, "the communicator is null");
  if (const std::string why = why_no_norm(call); !why.empty()) refuse(ncclInvalidArgument, why);
  if (Group::of_this_thread().open()) {
    refuse(ncclInvalidUsage, "it cannot be called between ncclGroupStart and ncclGroupEnd");
  }
  const std::shared_ptr<Entry> entry = registry().find(comm);
  if (entry && entry->state()) entry->state()->check();
  if (call.rows == 0) return ncclSuccess;
  const std::shared_ptr<Device> device = entry && entry->ours ? entry->ours->device() : device_of(comm);
  if (!device->has_norm(call.type)) refuse(ncclInvalidUsage, "this build has no kernel for it on this GPU");
  if (entry && entry->ours && entry->ours->launch_norm(call)) return ncclSuccess;
  const ncclResult_t result =
      ncclAllReduce(call.input, call.output, call.rows * call.hidden, call.type, ncclSum, comm, call.stream);
  if (result != ncclSuccess) return result;
  const NormShape shape = norm_alone_shape(call.rows, call.hidden * type_bytes(call.type));
  device->norm(shape.way, call.type, shape.channels, shape.threads, norm_arguments(call), call.stream);
  return ncclSuccess;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int busbwAllReduceRmsNorm(const void* input, const void* residual,
                                                                            const void* weight, float epsilon,
                                                                            size_t rows, size_t hidden, int type,
                                                                            void* output, void* residual_out,
                                                                            void* comm, void* stream) {
  const NormCall call{.type = ncclDataType_t(type),
                      .input = input,
                      .residual = residual,
                      .weight = weight,
                      .epsilon = epsilon,
                      .rows = rows,
                      .hidden = hidden,
                      .output = output,
                      .residual_out = residual_out,
                      .stream = static_cast<DeviceStream>(stream)};
  try {
    return all_reduce_norm(call, static_cast<ncclComm_t>(comm));
  } catch (const Failure& failure) {
    return remember(failure.code(), failure.what());
  } catch (const std::exception& error) {
    return remember(ncclInternalError, error.what());
  }
}

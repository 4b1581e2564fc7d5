// Small all-gathers by the real NCCL.
#include "library/gpu/join/exchange.h"

#include <cstring>

#include "library/common/failure.h"
#include "library/common/nccl/real_nccl.h"

namespace busbw::gpu {

Exchange::Exchange(std::shared_ptr<Device> device, ncclComm_t comm, int rank, int ranks, std::size_t bytes)
    : device_(std::move(device)), comm_(comm), rank_(rank), ranks_(ranks), bytes_(bytes) {
  stream_ = device_->create_stream();
  on_device_ = device_->allocate(bytes_ * std::size_t(ranks_));
  on_host_ = device_->allocate_host(bytes_ * std::size_t(ranks_));
}

Exchange::~Exchange() {
  try {
    if (started_ && !device_->done(stream_)) return;
  } catch (const Failure&) {
    return;
  }
  device_->destroy(stream_);
  device_->release(on_device_);
  device_->release(on_host_);
}

void Exchange::start(const void* mine) {
  std::memcpy(at(on_host_.host, rank_), mine, bytes_);
  device_->copy_in(at(on_device_, rank_), at(on_host_.host, rank_), bytes_, stream_);
  started_ = true;
  const ncclResult_t result = call_nccl(real_nccl().all_gather, static_cast<const void*>(at(on_device_, rank_)),
                                        on_device_, bytes_, ncclInt8, comm_, stream_);
  if (result != ncclSuccess && result != ncclInProgress) throw Failure(result, "NCCL's all-gather does not start");
}

bool Exchange::in_its_stream() {
  ncclResult_t error = ncclSuccess;
  call_nccl(real_nccl().get_async_error, comm_, &error);
  if (error == ncclInProgress) return false;
  if (error != ncclSuccess) throw Failure(error, "NCCL reports an error of its own");
  return true;
}

void Exchange::fetch() { device_->copy_out(on_host_.host, on_device_, bytes_ * std::size_t(ranks_), stream_); }

bool Exchange::done() {
  if (device_->done(stream_)) return true;
  ncclResult_t error = ncclSuccess;
  if (real_nccl().get_async_error) call_nccl(real_nccl().get_async_error, comm_, &error);
  if (error != ncclSuccess && error != ncclInProgress) throw Failure(error, "NCCL reports an error of its own");
  return false;
}

const void* Exchange::of(int rank) const { return at(on_host_.host, rank); }

}  // namespace busbw::gpu

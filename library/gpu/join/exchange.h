// All-gathers of a few hundred bytes over a communicator of the real NCCL, on a stream of our own and with an end to
// waiting.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>

#include "library/gpu/cuda/device.h"

namespace busbw::gpu {

class Exchange {
 public:
  // `bytes` of each rank.
  Exchange(std::shared_ptr<Device> device, ncclComm_t comm, int rank, int ranks, std::size_t bytes);
  // Memory that an all-gather may still write to is left alone.
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // Inside a group of the real NCCL.
  void start(const void* mine);
  // After the group, where that left it in progress.
  bool in_its_stream();
  // After the group.
  void fetch();
  // Whether everything has come; throws a Failure if it cannot come any more.
  bool done();
  const void* of(int rank) const;

 private:
  unsigned char* at(void* base, int rank) const {
    return static_cast<unsigned char*>(base) + std::size_t(rank) * bytes_;
  }

  std::shared_ptr<Device> device_;
  ncclComm_t comm_;
  int rank_;
  int ranks_;
  std::size_t bytes_;
  DeviceStream stream_ = nullptr;
  void* on_device_ = nullptr;
  HostMemory on_host_;
  bool started_ = false;
};

}  // namespace busbw::gpu

// BUSBW_CHECK=1: what our kernels made of a call is compared with what NCCL makes of the same input, in the call's own
// stream, so that nothing waits for it but what comes behind the call.
//
//     save the input | our kernel | keep the output | NCCL into memory of ours | copy both to the host | compare there
//
// What is checked follows from the call and its number alone, so that all ranks ask NCCL alike. Of a vector that is too
// long for the memory a part is checked, which moves from call to call.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "library/gpu/run/call.h"
#include "library/gpu/watch/health.h"

namespace busbw::gpu {

class Checker {
 public:
  struct Place {
    ncclComm_t comm = nullptr;
    int rank = 0;
    int ranks = 0;
    std::string name;  // of the communicator, for people
  };
  // `bytes` of a GPU's memory for inputs and outputs. Throws a Failure where there is not so much.
  Checker(std::shared_ptr<Device> device, Place place, std::shared_ptr<Health> health, std::size_t bytes = usual_bytes);
  ~Checker();
  Checker(const Checker&) = delete;
  Checker& operator=(const Checker&) = delete;

  // For the calls of a group, or one call; not while a stream is captured. All on one stream, and each communicator's
  // next begin() comes behind this compare() in its line.
  void begin(int calls);
  // Around a call's kernel. `how` describes the kernel, `number` is the call's on this communicator, from 1 on.
  void save(const Call& call, DeviceStream stream, const std::string& how, std::uint64_t number);
  void keep();
  // Puts NCCL's calls into the stream, or into NCCL's open group.
  void ask_nccl();
  // Behind those.
  void compare();
  bool pending() const { return !open_.empty(); }

  static constexpr std::size_t usual_bytes = std::size_t(96) << 20;

 private:
  struct One;
  struct Chunk;
  static void compare_chunk(void* chunk);
  unsigned char* take(std::size_t bytes);
  void copy_parts(unsigned char* to, const void* from, int blocks, const One& one, DeviceStream stream);
  bool ask_for(const One& one, ncclRedOp_t op, unsigned char* to);

  std::shared_ptr<Device> device_;
  Place place_;
  std::shared_ptr<Health> health_;
  std::size_t bytes_;
  unsigned char* memory_ = nullptr;
  HostMemory host_;
  std::size_t share_ = 0, used_ = 0;
  std::vector<std::shared_ptr<One>> open_;
  std::shared_ptr<One> current_;
  // Chunks that are in streams.
  std::shared_ptr<std::atomic<int>> running_ = std::make_shared<std::atomic<int>>(0);
};

}  // namespace busbw::gpu

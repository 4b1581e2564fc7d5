// GPUs that are simulated: kernel code runs on fibers, one per CUDA thread, and stores to scratch memory arrive late
// and in any order that the memory model allows. A seed fixes everything, so what it finds can be run again.
//
// What is modelled
//   - Threads run in any order and at any speed; whole ranks and blocks stand still for a while, as the seed wants.
//   - store_pairs arrives as two halves of 8 bytes, store_relaxed and store_data as four words, store_flag as one: each
//     at a time of its own, later than any number of other stores. Stores to one address keep their order.
//   - load_pairs and load_relaxed look at their parts one after the other, while stores arrive in between.
//   - release_fence lets the earlier stores of its thread arrive, and those that other threads of the block made before
//     the last barrier; nothing else does but time. So a barrier or a fence that is missing is seen as a wrong result.
//   - A rank's kernels run one after the other. Stores to its own scratch have arrived when its next kernel starts.
// What is not: loads that a thread makes early, and caches. User memory and channel state are plain memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "library/gpu/kernels/arguments.h"

namespace busbw::gpu::test {

using Kernel = void (*)(const KernelArguments&);

struct Launch {
  Kernel kernel = nullptr;
  int channels = 1;
  int threads = 4;
  // send, recv, count, op and root; the machine fills in the rest.
  KernelArguments arguments;
};

class Machine {
 public:
  Machine(const Layout& layout, std::uint32_t seed);
  ~Machine();

  // Queues a kernel on a rank, behind those before it.
  void launch(int rank, const Launch& launch);

  // Runs until every queue is empty. Throws std::runtime_error if all that are left wait for what cannot come.
  void run();

  // Every rank's abort word.
  void set_abort();

  // A rank's memory, for tests that start in the middle of a long run.
  unsigned char* scratch(int rank);
  ChannelState& state(int rank, int channel);

  struct Inside;

 private:
  std::unique_ptr<Inside> inside_;
};

}  // namespace busbw::gpu::test

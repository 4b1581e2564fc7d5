// The same random calls as on the simulated machine, by the compiled kernels on real GPUs. Ranks share GPUs where there
// are fewer of them: all of a call's blocks fit on one at once, and compute-sanitizer looks at one GPU best.
#include <chrono>
#include <memory>
#include <thread>

#include "library/common/failure.h"
#include "library/gpu/cuda/device.h"
#include "library/gpu/kernels/sentinel.h"
#include "library/tests/gpu/calls.h"

namespace busbw::gpu::test {
namespace {

constexpr auto longest = std::chrono::seconds(60);

std::vector<std::shared_ptr<Device>> all_gpus() {
  std::vector<std::shared_ptr<Device>> gpus;
  if (!cuda_devices().why_none().empty()) return gpus;
  try {
    while (gpus.size() < max_ranks) gpus.push_back(cuda_devices().open(static_cast<int>(gpus.size())));
  } catch (const Failure&) {
    // There is no GPU of this number: these are all.
  }
  return gpus;
}

class PinnedArena : public Arena {
 public:
  explicit PinnedArena(Device& device) : device_(device) {}
  ~PinnedArena() override {
    for (const HostMemory& memory : taken_) device_.release(memory);
  }
  unsigned char* take(std::size_t bytes) override {
    const HostMemory& memory = taken_.emplace_back(device_.allocate_host(bytes));
    // One address for both sides, as everywhere with unified addressing.
    if (memory.host != memory.device) throw std::runtime_error("host memory has another address on the GPU");
    return static_cast<unsigned char*>(memory.host);
  }

 private:
  Device& device_;
  std::vector<HostMemory> taken_;
};

// Ranks in one process, each with a stream.
class Ranks {
 public:
  Ranks(const std::vector<std::shared_ptr<Device>>& gpus, const Layout& layout) : layout_(layout) {
    abort_ = gpus[0]->allocate_host(4);
    for (int rank = 0; rank < layout.ranks; ++rank) {
      Device& gpu = *devices_.emplace_back(gpus[static_cast<std::size_t>(rank) % gpus.size()]);
      for (const auto& other : gpus)
        if (other.get() != &gpu) gpu.reach(other->facts().ordinal);
      auto* scratch = static_cast<unsigned char*>(gpu.allocate(layout.bytes));
      gpu.fill(scratch + layout.sentinel_start, sentinel, layout.simple_start - layout.sentinel_start);
      scratch_.push_back(scratch);
      states_.push_back(
          static_cast<ChannelState*>(gpu.allocate(static_cast<std::size_t>(layout.channels) * sizeof(ChannelState))));
      streams_.push_back(gpu.create_stream());
    }
  }

  ~Ranks() {
    for (std::size_t rank = 0; rank < devices_.size(); ++rank) {
      devices_[rank]->destroy(streams_[rank]);
      devices_[rank]->release(scratch_[rank]);
      devices_[rank]->release(states_[rank]);
    }
    devices_[0]->release(abort_);
  }

  void launch(int rank, const Call& call, KernelArguments arguments) {
    const auto at = static_cast<std::size_t>(rank);
    arguments.rank = rank;
    arguments.ranks = layout_.ranks;
    arguments.state = states_[at];
    arguments.abort = static_cast<const std::uint32_t*>(abort_.device);
    for (std::size_t peer = 0; peer < scratch_.size(); ++peer) arguments.scratch[peer] = scratch_[peer];
    arguments.layout = layout_;
    const int kind = kind_of(call.kind.collective, call.kind.algorithm, call.kind.protocol);
    devices_[at]->launch(kind, call.collective.type, call.channels, call.threads, arguments, streams_[at]);
  }

  // False if something still waits after a long time; then everything is told to end.
  bool finish() {
    const auto end = std::chrono::steady_clock::now() + longest;
    for (std::size_t rank = 0; rank < devices_.size(); ++rank) {
      while (!devices_[rank]->done(streams_[rank])) {
        if (std::chrono::steady_clock::now() > end) {
          *static_cast<volatile std::uint32_t*>(abort_.host) = 1;
          return false;
        }
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    }
    return true;
  }

  void abort() { *static_cast<volatile std::uint32_t*>(abort_.host) = 1; }

 private:
  Layout layout_;
  std::vector<std::shared_ptr<Device>> devices_;
  std::vector<unsigned char*> scratch_;
  std::vector<ChannelState*> states_;
  std::vector<DeviceStream> streams_;
  HostMemory abort_;
};

class KernelsOnGpus : public ::testing::Test {
 protected:
  void SetUp() override {
    gpus_ = all_gpus();
    if (gpus_.empty()) GTEST_SKIP() << "skipped: no GPU";
  }

  void run(const Layout& layout, std::vector<Call>& calls, std::mt19937& random) {
    Ranks ranks(gpus_, layout);
    PinnedArena arena(*gpus_[0]);
    for (Call& call : calls)
      for (int rank = 0; rank < layout.ranks; ++rank)
        ranks.launch(rank, call, prepare(call, rank, layout.ranks, arena, random));
    ASSERT_TRUE(ranks.finish()) << "a kernel waits for what does not come";
    for (Call& call : calls) check(call, layout.ranks);
  }

  std::vector<std::shared_ptr<Device>> gpus_;
};

TEST_F(KernelsOnGpus, GiveTheReferencesBits) {
  constexpr Sizes sizes{.most_elements = 6000, .least_threads = 32, .threads_of_a_stage = 96};
  for (const KernelKind& kind : kernel_kinds) {
    for (int ranks : {2, 3, 4, 8}) {
      std::mt19937 random(static_cast<std::uint32_t>(ranks));
      const Layout layout = Layout::with(ranks, 8, 256, 1024);
      std::vector<Call> calls;
      for (int i = 0; i < 8; ++i) calls.push_back(random_call(kind, layout, sizes, random));
      SCOPED_TRACE(std::to_string(ranks) + " ranks");
      run(layout, calls, random);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(KernelsOnGpus, FollowOneAnotherInAnyOrder) {
  constexpr Sizes sizes{.most_elements = 6000, .least_threads = 32, .threads_of_a_stage = 96};
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    const Layout layout = Layout::with(2 + static_cast<int>(seed % 3), 8, 256, 1024);
    std::vector<Call> calls;
    for (int i = 0; i < 40; ++i)
      calls.push_back(random_call(kernel_kinds[random() % std::size(kernel_kinds)], layout, sizes, random));
    SCOPED_TRACE("seed " + std::to_string(seed));
    run(layout, calls, random);
    if (HasFatalFailure()) return;
  }
}

TEST_F(KernelsOnGpus, WorkWithTheScratchThatTheLibraryUses) {
  constexpr Sizes sizes{.most_elements = 300'000, .least_threads = 64, .threads_of_a_stage = 96};
  std::mt19937 random(5);
  const int ranks = std::max<int>(2, static_cast<int>(gpus_.size()));
  Layout layout = Layout::of(ranks);
  // Blocks of all ranks that share a GPU must be on it at once.
  layout.channels = 16;
  std::vector<Call> calls;
  for (const KernelKind& kind : kernel_kinds) calls.push_back(random_call(kind, layout, sizes, random));
  layout = Layout::of(ranks);
  run(layout, calls, random);
}

TEST_F(KernelsOnGpus, EndWhenAPeerIsLost) {
  for (const KernelKind& kind : kernel_kinds) {
    std::mt19937 random(7);
    const Layout layout = Layout::with(3, 4, 256, 1024);
    Call call =
        random_call(kind, layout, Sizes{.most_elements = 600, .least_threads = 32, .threads_of_a_stage = 96}, random);
    Ranks ranks(gpus_, layout);
    PinnedArena arena(*gpus_[0]);
    for (int rank = 0; rank < 2; ++rank) ranks.launch(rank, call, prepare(call, rank, 3, arena, random));
    ranks.abort();
    EXPECT_TRUE(ranks.finish()) << name(kind.collective);
  }
}

}  // namespace
}  // namespace busbw::gpu::test

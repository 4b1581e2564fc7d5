// How long every kernel takes, by size, channels and threads, on the GPUs of this machine: what a table of choices is
// made from. One process for all ranks, no NCCL; results are not looked at here (kernels_gpu_test.cc does).
//
//   busbw_kernel_sweep [--ranks 4] [--min 1024] [--max 67108864] [--factor 4] [--collective all_reduce]
//                      [--algorithm two_shot/ll] [--budget 60]
//
// Each line of its output is one JSON object; "us" is the time of one call as every rank's GPU sees it, the largest of
// the ranks, from a CUDA graph of many calls that is replayed.
#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/error.h"
#include "engine/platform/cuda_driver.h"
#include "library/common/failure.h"
#include "library/gpu/choose/choice.h"
#include "library/gpu/cuda/device.h"
#include "library/gpu/kernels/sentinel.h"

namespace busbw::gpu {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  int ranks = 0;  // 0: one for each GPU
  std::uint64_t least_bytes = 1024;
  std::uint64_t most_bytes = 64 << 20;
  std::uint64_t factor = 4;
  std::string collective;  // empty: all
  std::string algorithm;
  double budget_seconds = 60;
};

struct Config {
  KernelKind kind;
  std::uint64_t bytes;  // as nccl-tests counts them
  int channels;
  int threads;
};

// A rank: a GPU, its memory and its stream.
struct Rank {
  std::shared_ptr<Device> device;
  CudaContext context = nullptr;
  unsigned char* scratch = nullptr;
  ChannelState* state = nullptr;
  unsigned char* send = nullptr;
  unsigned char* recv = nullptr;
  DeviceStream stream = nullptr;
  CudaGraphExec graph = nullptr;
  CudaEvent begin = nullptr;
  CudaEvent end = nullptr;
};

class Sweep {
 public:
  Sweep(const CudaDriver& driver, std::vector<std::shared_ptr<Device>> gpus, std::uint64_t most_bytes)
      : driver_(driver), layout_(Layout::of(static_cast<int>(gpus.size()))) {
    abort_ = gpus[0]->allocate_host(4);
    for (const auto& gpu : gpus) {
      Rank& rank = ranks_.emplace_back();
      rank.device = gpu;
      for (const auto& other : gpus)
        if (other != gpu) gpu->reach(other->facts().ordinal);
      rank.scratch = static_cast<unsigned char*>(gpu->allocate(layout_.bytes));
      gpu->fill(rank.scratch + layout_.sentinel_start, sentinel, layout_.simple_start - layout_.sentinel_start);
      rank.state =
          static_cast<ChannelState*>(gpu->allocate(static_cast<std::size_t>(layout_.channels) * sizeof(ChannelState)));
      rank.send = static_cast<unsigned char*>(gpu->allocate(most_bytes));
      rank.recv = static_cast<unsigned char*>(gpu->allocate(most_bytes));
      rank.stream = gpu->create_stream();
      CudaDevice device = 0;
      check(driver_.device_get(&device, gpu->facts().ordinal), "cuDeviceGet");
      check(driver_.primary_context_retain(&rank.context, device), "cuDevicePrimaryCtxRetain");
      enter(rank);
      check(driver_.event_create(&rank.begin, 0), "cuEventCreate");
      check(driver_.event_create(&rank.end, 0), "cuEventCreate");
    }
  }

  int ranks() const { return static_cast<int>(ranks_.size()); }
  const Layout& layout() const { return layout_; }

  // Microseconds of one call; throws an Error if the kernels do not end.
  double measure(const Config& config) {
    const int calls = config.bytes <= 1 << 20 ? 50 : config.bytes <= 16 << 20 ? 10 : 4;
    constexpr int replays = 3;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) capture(config, static_cast<int>(rank), calls);
    // The first replay brings the ranks together: the next ones begin at the same time everywhere.
    for (int replay = 0; replay <= replays; ++replay) {
      for (Rank& rank : ranks_) {
        enter(rank);
        if (replay == 1) check(driver_.event_record(rank.begin, rank.stream), "cuEventRecord");
        check(driver_.graph_launch(rank.graph, rank.stream), "cuGraphLaunch");
        if (replay == replays) check(driver_.event_record(rank.end, rank.stream), "cuEventRecord");
      }
    }
    finish(config);
    float longest = 0;
    for (Rank& rank : ranks_) {
      enter(rank);
      float milliseconds = 0;
      check(driver_.event_elapsed_time(&milliseconds, rank.begin, rank.end), "cuEventElapsedTime");
      longest = std::max(longest, milliseconds);
      driver_.graph_exec_destroy(rank.graph);
    }
    return 1000.0 * longest / (replays * calls);
  }

 private:
  void check(CudaResult result, const char* call) const { driver_.check(result, call, "a GPU of the sweep"); }
  void enter(const Rank& rank) const { check(driver_.context_set_current(rank.context), "cuCtxSetCurrent"); }

  void capture(const Config& config, int index, int calls) {
    Rank& rank = ranks_[static_cast<std::size_t>(index)];
    enter(rank);
    KernelArguments arguments;
    arguments.send = rank.send;
    arguments.recv = rank.recv;
    arguments.count = count(config);
    arguments.rank = index;
    arguments.ranks = ranks();
    arguments.state = rank.state;
    arguments.abort = static_cast<const std::uint32_t*>(abort_.device);
    for (std::size_t peer = 0; peer < ranks_.size(); ++peer) arguments.scratch[peer] = ranks_[peer].scratch;
    arguments.layout = layout_;
    const int kind = kind_of(config.kind.collective, config.kind.algorithm, config.kind.protocol);
    check(driver_.stream_begin_capture(rank.stream, cuda::capture_thread_local), "cuStreamBeginCapture");
    for (int call = 0; call < calls; ++call)
      rank.device->launch(kind, ncclFloat32, config.channels, config.threads, arguments, rank.stream);
    CudaGraph graph = nullptr;
    check(driver_.stream_end_capture(rank.stream, &graph), "cuStreamEndCapture");
    check(driver_.graph_instantiate(&rank.graph, graph, 0), "cuGraphInstantiate");
    check(driver_.graph_destroy(graph), "cuGraphDestroy");
  }

  // In elements for kernels that reduce, in bytes for the others.
  std::uint64_t count(const Config& config) const {
    const bool whole =
        config.kind.collective == Collective::all_reduce || config.kind.collective == Collective::broadcast;
    const std::uint64_t bytes = whole ? config.bytes : config.bytes / ranks_.size();
    return reduces(config.kind.collective) ? bytes / 4 : bytes;
  }

  void finish(const Config& config) {
    const auto limit = Clock::now() + std::chrono::seconds(20);
    for (Rank& rank : ranks_) {
      while (!rank.device->done(rank.stream)) {
        if (Clock::now() < limit) continue;
        *static_cast<volatile std::uint32_t*>(abort_.host) = 1;
        throw Error(ExitCode::timeout,
                    format("%s %s/%s of %" PRIu64 " bytes on %d channels does not end", name(config.kind.collective),
                           name(config.kind.algorithm), name(config.kind.protocol), config.bytes, config.channels));
      }
    }
  }

  const CudaDriver& driver_;
  Layout layout_;
  std::vector<Rank> ranks_;
  HostMemory abort_;
};

std::vector<Config> configs_of(const Options& options, const Layout& layout, int ranks) {
  std::vector<Config> configs;
  for (std::uint64_t bytes = options.least_bytes; bytes <= options.most_bytes; bytes *= options.factor) {
    for (const KernelKind& kind : kernel_kinds) {
      if (!options.collective.empty() && options.collective != name(kind.collective)) continue;
      const std::string algorithm = std::string(name(kind.algorithm)) + '/' + name(kind.protocol);
      if (!options.algorithm.empty() && options.algorithm != algorithm) continue;
      const bool whole = kind.collective == Collective::all_reduce || kind.collective == Collective::broadcast;
      const Request request{kind.collective, ncclFloat32, ncclSum,
                            bytes / 4 / (whole ? 1 : static_cast<std::uint64_t>(ranks)), ranks};
      if (!applicable(kind, request, layout)) continue;
      const ChannelRange range = channel_range(kind, request, layout);
      // A channel of many megabytes takes long and is never the best.
      const int least = static_cast<int>(std::min<std::uint64_t>(32, bytes >> 19));
      for (int channels = 1; channels <= max_channels; channels *= 2)
        for (const int threads : {64, 128, 256, 320, 384, 512}) {
          const bool both = kind.protocol == Protocol::simple || (threads & (threads - 1)) == 0;
          if (both && threads >= least_threads(kind) && threads <= most_threads(kind, ranks) &&
              channels >= std::max(least, range.least) && channels <= range.most)
            configs.push_back({kind, bytes, channels, threads});
        }
    }
  }
  return configs;
}

std::uint64_t number(const char* option, const char* text) {
  char* end = nullptr;
  const unsigned long long value = std::strtoull(text, &end, 10);
  if (end == text || *end != '\0' || value == 0)
    throw Error(ExitCode::bad_arguments, format("%s takes a number from 1 up, not '%s'", option, text));
  return value;
}

Options parse(int count, char** words) {
  Options options;
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string_view option = words[i];
    if (option == "--ranks") {
      options.ranks = static_cast<int>(number(words[i], words[i + 1]));
    } else if (option == "--min") {
      options.least_bytes = number(words[i], words[i + 1]);
    } else if (option == "--max") {
      options.most_bytes = number(words[i], words[i + 1]);
    } else if (option == "--factor") {
      options.factor = std::max<std::uint64_t>(2, number(words[i], words[i + 1]));
    } else if (option == "--collective") {
      options.collective = words[i + 1];
    } else if (option == "--algorithm") {
      options.algorithm = words[i + 1];
    } else if (option == "--budget") {
      options.budget_seconds = static_cast<double>(number(words[i], words[i + 1]));
    } else {
      throw Error(ExitCode::bad_arguments, format("there is no option '%s'; see the head of sweep_gpu.cc", words[i]));
    }
  }
  if (count % 2 == 0) throw Error(ExitCode::bad_arguments, format("the option '%s' lacks its value", words[count - 1]));
  return options;
}

std::vector<std::shared_ptr<Device>> gpus_for(const Options& options) {
  if (const std::string why = cuda_devices().why_none(); !why.empty())
    throw Error(ExitCode::cuda, "skipped: no GPU: " + why);
  std::vector<std::shared_ptr<Device>> gpus;
  try {
    const std::size_t wanted = options.ranks > 0 ? static_cast<std::size_t>(options.ranks) : max_ranks;
    while (gpus.size() < wanted) gpus.push_back(cuda_devices().open(static_cast<int>(gpus.size())));
  } catch (const Failure& failure) {
    if (gpus.size() < 2 || options.ranks > 0) throw Error(ExitCode::cuda, failure.what());
  }
  return gpus;
}

void run(const Options& options) {
  std::string why_not;
  const CudaDriver* driver = cuda_driver(why_not);
  if (driver == nullptr) throw Error(ExitCode::cuda, "skipped: no GPU: " + why_not);
  Sweep sweep(*driver, gpus_for(options), options.most_bytes);
  const std::vector<Config> configs = configs_of(options, sweep.layout(), sweep.ranks());
  const auto limit = Clock::now() + std::chrono::duration<double>(options.budget_seconds);
  std::size_t done = 0;
  for (const Config& config : configs) {
    if (Clock::now() > limit) break;
    // The first time is for the caches and clocks.
    if (done == 0) sweep.measure(config);
    const double us = sweep.measure(config);
    std::printf("{\"collective\":\"%s\",\"algorithm\":\"%s\",\"protocol\":\"%s\",\"ranks\":%d,\"bytes\":%" PRIu64
                ",\"channels\":%d,\"threads\":%d,\"us\":%.3f}\n",
                name(config.kind.collective), name(config.kind.algorithm), name(config.kind.protocol), sweep.ranks(),
                config.bytes, config.channels, config.threads, us);
    std::fflush(stdout);
    ++done;
  }
  std::fprintf(stderr, "busbw_kernel_sweep: %zu of %zu configurations measured\n", done, configs.size());
}

}  // namespace
}  // namespace busbw::gpu

int main(int count, char** words) {
  try {
    busbw::gpu::run(busbw::gpu::parse(count, words));
    return 0;
  } catch (const busbw::Error& error) {
    std::fprintf(stderr, "busbw_kernel_sweep: %s\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "busbw_kernel_sweep: %s\n", error.what());
    return 1;
  }
}

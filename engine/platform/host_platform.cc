// The host as a device: plain memory, a stream on which everything is done when the call returns, clocks for events.
#include <sys/sysinfo.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <vector>

#include "engine/platform/affinity.h"
#include "engine/platform/device.h"
#include "engine/platform/host_pattern.h"
#include "engine/platform/host_product.h"

namespace busbw {
namespace {

using Clock = std::chrono::steady_clock;

class HostEvents : public Events {
 public:
  explicit HostEvents(std::size_t count) : times_(count) {}
  void record(std::size_t index) override { times_[index] = Clock::now(); }
  Seconds between(std::size_t from, std::size_t to) override { return times_[to] - times_[from]; }

 private:
  std::vector<Clock::time_point> times_;
};

class HostStream : public Stream {
 public:
  ncclStream_t handle() const override { return nullptr; }
  bool finished() override { return true; }
  std::unique_ptr<Events> make_events(std::size_t count) override { return std::make_unique<HostEvents>(count); }
  void begin_capture() override {
    throw Error(ExitCode::not_implemented, "a CPU library has no CUDA graphs; leave -G out");
  }
  std::unique_ptr<Graph> end_capture() override { return nullptr; }
};

std::string processor_model() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind("model name", 0) != 0) continue;
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "CPU";
}

class HostDevice : public Device {
 public:
  HostDevice(int index, std::string name) {
    info_.kind = DeviceInfo::Kind::cpu;
    info_.index = index;
    info_.name = std::move(name);
    info_.bus_id = "0000:00:00";
    struct sysinfo system{};
    if (sysinfo(&system) == 0) info_.total_memory = {system.totalram * system.mem_unit};
  }

  const DeviceInfo& info() const override { return info_; }
  void use() override {}

  void* allocate(std::size_t bytes) override {
    void* memory = nullptr;
    // Page alignment, as device allocators give it.
    if (posix_memalign(&memory, 4096, bytes == 0 ? 4096 : bytes) != 0)
      throw Error(ExitCode::internal, format("cannot allocate %zu bytes of host memory; try a smaller -e", bytes));
    return memory;
  }
  void release(void* memory) noexcept override { std::free(memory); }

  std::unique_ptr<Stream> make_stream(bool) override { return std::make_unique<HostStream>(); }

  void clear(void* memory, std::size_t bytes, Stream&) override { std::memset(memory, 0, bytes); }
  void copy(void* to, const void* from, std::size_t bytes, Stream&) override { std::memmove(to, from, bytes); }
  void fill(void* memory, const Pattern& pattern, std::span<const Segment> segments, Stream&) override {
    fill_on_host(memory, pattern, segments);
  }
  // Expected values that stay in the second-level cache are never written to memory, which costs more than making them.
  Bytes check_piece() const override { return {128U << 10}; }
  std::uint64_t count_wrong(const void* data, const void* expected, std::size_t count, const Pattern& pattern,
                            Stream&) override {
    return count_wrong_on_host(data, expected, count, pattern);
  }

  std::unique_ptr<Product> make_product(const ProductShape& shape) override {
    // From the last processor on, so that ranks, which are placed from the first on, keep theirs where there are
    // enough for both.
    const std::vector<int> cpus = allowed_cpus();
    const std::size_t mine = cpus.empty() ? 0 : static_cast<std::size_t>(info_.index) % cpus.size();
    return make_host_product(shape, cpus.empty() ? cpus : std::vector<int>{cpus[cpus.size() - 1 - mine]});
  }

  Bytes memory_used() override {
    std::ifstream file("/proc/self/statm");
    std::size_t total = 0;
    std::size_t resident = 0;
    file >> total >> resident;
    return {resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE))};
  }

 private:
  DeviceInfo info_;
};

class HostPlatform : public Platform {
 public:
  int device_count() const override { return 1 << 20; }
  std::unique_ptr<Device> open(int index) override { return std::make_unique<HostDevice>(index, name_); }
  bool asynchronous() const override { return false; }

 private:
  std::string name_ = processor_model();
};

}  // namespace

std::unique_ptr<Platform> make_host_platform() { return std::make_unique<HostPlatform>(); }

}  // namespace busbw

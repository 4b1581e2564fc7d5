// A GPU for tests: memory is the host's, streams and events only write down what is asked of them, kernels are noted
// and run whatever the test puts there.
#pragma once

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "library/common/failure.h"
#include "library/common/process.h"
#include "library/gpu/cuda/device.h"
#include "library/tests/gpu/fake_graphs.h"

namespace busbw::gpu::test {

class FakeDevice : public FakeGraphs {
 public:
  explicit FakeDevice(int ordinal) {
    facts_.name = "Test H200";
    facts_.bus_id = "0000:0f:00.0";
    facts_.ordinal = ordinal;
    facts_.multiprocessors = 132;
    fill_random(facts_.uuid.data(), facts_.uuid.size());
  }

  const DeviceFacts& facts() const override { return facts_; }
  std::string why_not() const override { return refusal; }

  // Pages come when they are touched, so that the scratch of many ranks fits.
  void* allocate(std::size_t bytes) override {
    forbidden_in_captures();
    if (refuse_memory) throw Failure(ncclUnhandledCudaError, "there is no memory left on the test GPU");
    const int file = ::memfd_create("busbw-fake-gpu", MFD_CLOEXEC);
    if (file < 0 || ::ftruncate(file, off_t(bytes)) != 0) throw Failure(ncclSystemError, "memfd_create failed");
    void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    const std::lock_guard lock(guard_);
    files_[memory] = {file, bytes, ++last_number_};
    allocated += bytes;
    ++live_allocations();
    return memory;
  }
  void fill(void* memory, std::uint32_t word, std::size_t bytes) override {
    forbidden_in_captures();
    const std::lock_guard lock(guard_);
    fills.push_back({memory, word, bytes});
  }
  // The driver's side of it is aside from captures (CudaDevice::release).
  void release(void* memory) noexcept override {
    const std::lock_guard lock(guard_);
    const auto found = files_.find(memory);
    if (found == files_.end()) return;
    ::munmap(memory, found->second.bytes);
    ::close(found->second.file);
    files_.erase(found);
    --live_allocations();
  }
  HostMemory allocate_host(std::size_t bytes) override {
    forbidden_in_captures();
    const std::lock_guard lock(guard_);
    const auto memory = host_.insert(host_.end(), std::vector<unsigned char>(bytes))->data();
    return {memory, memory};
  }
  // Kept as long as the device: what an exchange that never ends may still write to is never given back.
  void release(const HostMemory&) noexcept override {}

  MemoryHandle share(void* memory) override {
    forbidden_in_captures();
    const std::lock_guard lock(guard_);
    MemoryHandle handle{};
    const std::string path =
        text("/proc/%d/fd/%d %zu", int(::getpid()), files_.at(memory).file, files_.at(memory).bytes);
    path.copy(reinterpret_cast<char*>(handle.bytes), sizeof handle.bytes - 1);
    return handle;
  }
  void* open(const MemoryHandle& handle) override {
    forbidden_in_captures();
    char path[64];
    std::size_t bytes = 0;
    std::sscanf(reinterpret_cast<const char*>(handle.bytes), "%63s %zu", path, &bytes);
    const int file = ::open(path, O_RDWR | O_CLOEXEC);
    if (file < 0 || refuse_peers) throw Failure(ncclUnhandledCudaError, "the test GPU reaches no peer");
    void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    const std::lock_guard lock(guard_);
    opened_[memory] = bytes;
    return memory;
  }
  void close(void* opened) noexcept override {
    forbidden_in_captures();
    const std::lock_guard lock(guard_);
    ::munmap(opened, opened_[opened]);
    opened_.erase(opened);
  }
  void reach(int) override {
    forbidden_in_captures();
    if (refuse_peers) throw Failure(ncclUnhandledCudaError, "the test GPU reaches no peer");
  }

  // As memory of cuMemAlloc, or with ranges_by_descriptor as that of cuMemCreate.
  RangeHandle share_range(const void* memory, std::size_t bytes, Descriptor& descriptor) override {
    forbidden_in_captures();
    if (refuse_shares) throw Failure(ncclUnhandledCudaError, "the test GPU shares no window");
    const std::lock_guard lock(guard_);
    for (const auto& [begin, allocation] : files_) {
      const std::size_t offset = static_cast<const char*>(memory) - static_cast<const char*>(begin);
      if (memory < begin || offset + bytes > allocation.bytes) continue;
      RangeHandle range{};
      range.offset = offset;
      range.allocation = allocation.bytes;
      range.by_descriptor = ranges_by_descriptor;
      if (ranges_by_descriptor) descriptor = Descriptor(::dup(allocation.file));
      const std::string path = text("/proc/%d/fd/%d %zu", int(::getpid()), allocation.file, allocation.bytes);
      path.copy(reinterpret_cast<char*>(range.handle.bytes), sizeof range.handle.bytes - 1);
      return range;
    }
    throw Failure(ncclInvalidUsage, "the window is in no memory of the test GPU");
  }
  // Memory of the program's own is told apart; other memory has the test's number.
  std::uint64_t allocation_of(const void* memory) override {
    const std::lock_guard lock(guard_);
    for (const auto& [begin, allocation] : files_) {
      const auto* const at = static_cast<const char*>(begin);
      if (memory >= at && memory < at + allocation.bytes) return allocation.number;
    }
    if (const std::uint64_t chunk = chunk_at(memory); chunk != 0) return chunk;
    return FakeGraphs::allocation_of(memory);
  }
  void* open_range(const RangeHandle& range, const Descriptor& descriptor) override {
    forbidden_in_captures();
    if (!range.by_descriptor) return open(range.handle);
    void* memory = ::mmap(nullptr, range.allocation, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get(), 0);
    if (memory == MAP_FAILED) throw Failure(ncclUnhandledCudaError, "the test GPU cannot map a peer's memory");
    const std::lock_guard lock(guard_);
    opened_[memory] = range.allocation;
    return memory;
  }
  void close_range(const RangeHandle&, void* opened) noexcept override { close(opened); }
  void opened_chunks(void* memory, std::size_t bytes) override {
    forbidden_in_captures();
    const std::lock_guard lock(guard_);
    opened_[memory] = bytes;
  }
  void check_reach(const void*) override {
    forbidden_in_captures();
    if (refuse_windows) throw Failure(ncclUnhandledCudaError, "the test GPU has no access to a window of a peer");
  }

  DeviceStream create_stream() override {
    forbidden_in_captures();
    return test::stream(++last_stream_);
  }
  void destroy(DeviceStream) noexcept override { forbidden_in_captures(); }
  void copy_in(void* to, const void* from_host, std::size_t bytes, DeviceStream) override {
    std::memcpy(to, from_host, bytes);
  }
  void copy_out(void* to_host, const void* from, std::size_t bytes, DeviceStream) override {
    std::memcpy(to_host, from, bytes);
  }
  bool done(DeviceStream on) override {
    forbidden_in_captures();
    if (driver_is_gone()) ++asked_after_its_end();
    return on != stuck;
  }

  DeviceEvent create_event() override {
    const std::lock_guard lock(guard_);
    if (retired.empty()) return reinterpret_cast<DeviceEvent>(++last_event_);
    const DeviceEvent event = retired.back();
    retired.pop_back();
    return event;
  }
  void destroy(DeviceEvent) noexcept override {}
  void retire(DeviceEvent event) noexcept override {
    const std::lock_guard lock(guard_);
    retired.push_back(event);
  }
  DeviceEvent create_timer() override { return create_event(); }
  double milliseconds(DeviceEvent from, DeviceEvent to) override { return times_.at(to) - times_.at(from); }
  void record(DeviceEvent event, DeviceStream on) override {
    if (clock) times_[event] = clock();
    note(text("record e%zu s%zu", number(event), number(on)));
  }
  void wait(DeviceStream on, DeviceEvent event) override { note(text("wait s%zu e%zu", number(on), number(event))); }
  bool done(DeviceEvent) override {
    forbidden_in_captures();
    return events_done;
  }
  // As the driver's: a stream that was destroyed and made again has another one; the two names of the legacy stream
  // have one, and the per-thread stream has one for each thread.
  std::uint64_t identity(DeviceStream on) override {
    // As the driver: the capture is lost.
    EXPECT_EQ(capture(on), 0U) << "the number of a stream was asked for while it is captured";
    if (!tells_identities) return 0;
    static thread_local const char of_this_thread = 0;
    if (number(on) == 2) return reinterpret_cast<std::uint64_t>(&of_this_thread);
    const std::lock_guard lock(guard_);
    const auto found = made_again.find(on);
    return std::max<std::uint64_t>(1, number(on)) + (found == made_again.end() ? 0 : 1000 * found->second);
  }
  bool is_urgent(DeviceStream on) override {
    const std::lock_guard lock(guard_);
    return urgent.contains(on);
  }
  // As if each stream of a capture had a node of its own, and the program had cut off those in `cut` once.
  std::vector<void*> ends(DeviceStream on) override {
    static thread_local const char of_this_thread = 0;
    const void* end = number(on) == 2 ? static_cast<const void*>(&of_this_thread) : on;
    return {const_cast<void*>(end)};
  }
  bool comes_behind(DeviceStream on, const std::vector<void*>& nodes) override {
    const std::lock_guard lock(guard_);
    return cut.erase(on) == 0 && nodes == ends(on);
  }
  void wait_outside(DeviceStream on, DeviceEvent event) override {
    note(text("wait outside s%zu e%zu", number(on), number(event)));
  }
  void record_outside(OutsideRecord& record, DeviceEvent event, DeviceStream on) override {
    note(text("%s outside e%zu s%zu", record.node ? "move record" : "record", number(event), number(on)));
    record.node = this;
  }
  void keep(DeviceStream on, std::shared_ptr<void> what) override {
    const std::lock_guard lock(guard_);
    kept.emplace(captures.at(on), std::move(what));
  }
  // As the end of the program's graphs. What they keep holds this device in turn.
  void destroy_graphs() {
    decltype(kept) gone;  // after the lock is given back
    const std::lock_guard lock(guard_);
    gone.swap(kept);
  }
  std::uint64_t capture(DeviceStream on) override {
    const std::lock_guard lock(guard_);
    const auto found = captures.find(on);
    return found == captures.end() ? 0 : found->second;
  }

  using FakeGraphs::launch, FakeGraphs::destroy;
  bool has(int kind, ncclDataType_t) const override { return kind >= 0; }
  void launch(int kind, ncclDataType_t type, int channels, int threads, const KernelArguments& arguments,
              DeviceStream on) override {
    note(text("launch s%zu", number(on)));
    if (refuse_launch) throw Failure(ncclUnhandledCudaError, "the test GPU launches nothing");
    const Launch launch{kind, type, channels, threads, arguments, on};
    {
      const std::lock_guard lock(guard_);
      launches.push_back(launch);
    }
    if (kernel) kernel(launch);
  }

  // Of ranks that are threads or processes: these meet here and now.
  void meet(const KernelArguments& a, DeviceStream on) override {
    note(text("meet s%zu", number(on)));
    const std::uint32_t number = ++a.state->meetings;
    const auto place = [&](int of, int source) {
      return std::atomic_ref(*reinterpret_cast<std::uint32_t*>(a.scratch[of] + a.layout.met(source)));
    };
    for (int peer = 0; peer < a.ranks; ++peer) place(peer, a.rank).store(number);
    for (int peer = 0; peer < a.ranks; ++peer) {
      while (static_cast<std::int32_t>(place(a.rank, peer).load() - number) < 0 && *a.abort == 0) ::usleep(50);
    }
  }
  bool can_order_by_words() const override { return can_order; }
  void order_by_words(const WordStep* steps, std::size_t count, DeviceStream on) override {
    const std::vector<WordStep> copied(steps, steps + count);
    if (take([=, this] { order_by_words(copied.data(), count, on); })) return;
    for (std::size_t i = 0; i < count; ++i) {
      if (steps[i].waits) note(text("await s%zu", number(on)));
      const std::atomic_ref word(*steps[i].word);
      while (steps[i].waits && word.load() != steps[i].value) ::usleep(50);
      if (!steps[i].waits) word.store(steps[i].value);
    }
  }
  bool has_norm(ncclDataType_t) const override { return can_norm; }
  void norm(NormWay way, ncclDataType_t, int channels, int threads, const NormArguments& arguments,
            DeviceStream on) override {
    note(text("norm %s %dx%d s%zu", name(way), channels, threads, number(on)));
    if (norm_kernel) norm_kernel(way, arguments);
  }
  void add(ncclDataType_t type, const AddArguments& arguments, DeviceStream on) override {
    if (take([=, this] { add(type, arguments, on); })) return;
    note(text("add s%zu", number(on)));
  }
  void call(DeviceStream on, void (*function)(void*), void* data) override {
    note(text("call s%zu", number(on)));
    hold_calls ? held_.push_back([=] { function(data); }) : function(data);
  }
  void run_held_calls() {
    for (const auto& one : std::exchange(held_, {})) one();
  }
  void copy(void* to, const void* from, std::size_t bytes, DeviceStream on) override {
    if (take([=, this] { copy(to, from, bytes, on); })) return;
    note(text("copy %zu s%zu", bytes, number(on)));
    std::memcpy(to, from, bytes);
  }

  std::vector<std::string> take_notes() {
    const std::lock_guard lock(guard_);
    return std::exchange(notes_, {});
  }
  void note(const std::string& what) override {
    const std::lock_guard lock(guard_);
    notes_.push_back(what);
  }

  // Memory of peers.
  std::size_t opened_now() {
    const std::lock_guard lock(guard_);
    return opened_.size();
  }

  // The process ends, and the driver has taken itself apart.
  static std::atomic<bool>& driver_is_gone() {
    static std::atomic<bool> gone{false};
    return gone;
  }
  static std::atomic<int>& asked_after_its_end() {
    static std::atomic<int> count{0};
    return count;
  }

  static std::atomic<int>& live_allocations() {
    static std::atomic<int> count{0};
    return count;
  }

  struct Fill {
    void* memory;
    std::uint32_t word;
    std::size_t bytes;
  };
  std::string refusal;
  // While the program captures a stream in global mode: calls that such a capture forbids break it.
  std::atomic<bool> program_captures{false}, capture_broken{false};
  std::map<DeviceStream, std::uint64_t> made_again;  // how often a handle has come again
  std::set<DeviceStream> cut, urgent;
  std::atomic<bool> tells_identities{true};
  std::multimap<std::uint64_t, std::shared_ptr<void>> kept;  // by the capture; goes with its graph
  std::vector<DeviceEvent> retired;
  std::atomic<bool> refuse_memory{false}, refuse_peers{false}, refuse_launch{false}, events_done{true};
  std::atomic<bool> can_order{true}, can_norm{true};
  std::function<void(NormWay, const NormArguments&)> norm_kernel;
  std::atomic<bool> ranges_by_descriptor{false}, refuse_windows{false}, refuse_shares{false};
  std::map<DeviceStream, std::uint64_t> captures;
  std::atomic<std::size_t> allocated{0};  // in bytes, over the device's life
  DeviceStream stuck = nullptr;           // what is in this stream never ends
  std::vector<Fill> fills;
  std::vector<Launch> launches;
  std::function<void(const Launch&)> kernel;
  bool hold_calls = false;        // of the host, until run_held_calls()
  std::function<double()> clock;  // in milliseconds

 private:
  void forbidden_in_captures() noexcept {
    if (program_captures && capture_mode_here() != 2) capture_broken = true;
  }
  struct Memory {
    int file;
    std::size_t bytes;
    std::uint64_t number;
  };
  template <class Pointer>
  static std::size_t number(Pointer pointer) {
    return reinterpret_cast<std::size_t>(pointer);
  }

  DeviceFacts facts_;
  std::mutex guard_;
  std::map<void*, Memory> files_;
  std::map<DeviceEvent, double> times_;
  std::map<void*, std::size_t> opened_;
  std::list<std::vector<unsigned char>> host_;
  std::vector<std::string> notes_;
  std::vector<std::function<void()>> held_;
  std::uint64_t last_number_ = 1000;
  std::atomic<std::uintptr_t> last_event_{0};
  std::atomic<std::uintptr_t> last_stream_{1000};
};

}  // namespace busbw::gpu::test

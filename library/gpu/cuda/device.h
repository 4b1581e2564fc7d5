// What the host side of the library asks of one GPU. The CUDA driver stands behind it in cuda_device.cc; tests put host
// memory there, so that everything above runs without a GPU.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "busbw/nccl_abi.h"
#include "library/common/descriptor.h"
#include "library/gpu/choose/names.h"
#include "library/gpu/kernels/arguments.h"

namespace busbw::gpu {

struct DeviceFacts {
  std::string name;
  std::string bus_id;                  // 0000:0f:00.0
  std::array<unsigned char, 16> uuid;  // tells a GPU from every other one
  int ordinal = 0;                     // in this process
  // A kernel whose blocks wait for peers must have them all on the GPU at once; one fits on each of these for certain.
  int multiprocessors = 0;
};

// What another process needs to reach memory of this one.
struct MemoryHandle {
  unsigned char bytes[64];
};

// What another process needs to reach a range of memory that the program has allocated.
struct RangeHandle {
  MemoryHandle handle;         // of the allocation that the range lies in; unused with a descriptor
  std::uint64_t offset;        // of the range in it, in bytes
  std::uint64_t allocation;    // its size in bytes
  std::int32_t by_descriptor;  // 1: memory of cuMemCreate (as ncclMemAlloc's), which travels as a file descriptor
  std::int32_t reserved;
};

// Memory of cuMemCreate that lies in one piece in the address space, in allocations of one size: as a part of one of
// PyTorch's expandable segments.
struct Chunks {
  const unsigned char* begin = nullptr;
  std::uint64_t each = 0;                  // bytes of an allocation
  std::vector<std::uint64_t> allocations;  // the driver's handles of them; none: the memory is no such one
};

// Page-locked host memory that kernels read too, all zero at first. Copies to and from it do not block the caller.
struct HostMemory {
  void* host = nullptr;
  void* device = nullptr;
};

using DeviceStream = ncclStream_t;
using DeviceEvent = void*;
using DeviceGraph = struct RecordedGraph*;  // as it is launched

inline constexpr std::uint64_t lost_capture = ~std::uint64_t{0};

// The node of a graph under capture that records an event for all that runs outside of that graph, and the nodes that
// it comes behind.
struct OutsideRecord {
  void* node = nullptr;
  std::vector<void*> behind;
};

// What a stream does with a word of a GPU's memory, without a kernel.
struct WordStep {
  std::uint32_t* word = nullptr;
  std::uint32_t value = 0;
  bool waits = false;  // until the word has the value; else writes it, behind all that came before in the stream
};

// How all-reduce, residual and RMSNorm go together (kernels/norm.h).
enum class NormWay : std::uint8_t { one_shot, two_shot, alone };
constexpr const char* name(NormWay way) {
  constexpr const char* names[] = {"one_shot", "two_shot", "alone"};
  return names[static_cast<int>(way)];
}

// Everything that can fail throws a Failure with ncclUnhandledCudaError. From any thread; the caller's current GPU
// stays as it was.
class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceFacts& facts() const = 0;
  // Why no kernel of ours can run here; empty if they can.
  virtual std::string why_not() const = 0;

  virtual void* allocate(std::size_t bytes) = 0;  // all zero
  virtual void fill(void* memory, std::uint32_t word, std::size_t bytes) = 0;
  virtual void release(void* memory) noexcept = 0;
  virtual std::size_t free_memory() = 0;  // bytes
  virtual HostMemory allocate_host(std::size_t bytes) = 0;
  virtual void release(const HostMemory& memory) noexcept = 0;

  virtual MemoryHandle share(void* memory) = 0;
  virtual void* open(const MemoryHandle& handle) = 0;
  virtual void close(void* opened) noexcept = 0;
  // Makes memory of another GPU of this process addressable here.
  virtual void reach(int peer_ordinal) = 0;

  // Fills `descriptor` where the handle says so.
  virtual RangeHandle share_range(const void* memory, std::size_t bytes, Descriptor& descriptor) = 0;
  // Of another process; the start of its allocation.
  virtual void* open_range(const RangeHandle& range, const Descriptor& descriptor) = 0;
  virtual void close_range(const RangeHandle& range, void* opened) noexcept = 0;

  // Those that hold this memory, and neighbours of them as long as they are `enough` or fewer. The driver keeps them
  // until release(), even if the program frees them. None where the memory is something else, or not all there.
  virtual Chunks retain_chunks(const void* memory, std::size_t bytes, std::size_t enough) = 0;
  // Whether what lies at these addresses is still the same.
  virtual bool are_there(const Chunks& chunks, const void* memory, std::size_t bytes) = 0;
  virtual std::vector<Descriptor> share(const Chunks& chunks) = 0;
  virtual void release(const Chunks& chunks) noexcept = 0;
  // Of another process or of this one, in one piece. close_range() with a handle of that size ends it.
  virtual void* open_chunks(std::uint64_t each, const std::vector<Descriptor>& descriptors) = 0;

  // Throws if this GPU cannot address memory that another GPU of this process has shared with a descriptor.
  virtual void check_reach(const void* memory) = 0;

  virtual DeviceStream create_stream() = 0;
  virtual void destroy(DeviceStream stream) noexcept = 0;
  virtual void copy_in(void* to, const void* from_host, std::size_t bytes, DeviceStream stream) = 0;
  virtual void copy_out(void* to_host, const void* from, std::size_t bytes, DeviceStream stream) = 0;
  virtual bool done(DeviceStream stream) = 0;

  virtual DeviceEvent create_event() = 0;
  virtual void destroy(DeviceEvent event) noexcept = 0;
  virtual void record(DeviceEvent event, DeviceStream stream) = 0;
  virtual void wait(DeviceStream stream, DeviceEvent event) = 0;
  virtual bool done(DeviceEvent event) = 0;
  // An event that keeps its time, for record() and done(); and what lies between two that are done.
  virtual DeviceEvent create_timer() = 0;
  virtual double milliseconds(DeviceEvent from, DeviceEvent to) = 0;
  // For another create_event(). Asks nothing of CUDA, from any thread.
  virtual void retire(DeviceEvent event) noexcept = 0;
  // Tells a stream from every other one, gone ones included, whose handles come again; 0 where the driver does not say.
  // Not of a stream that is being captured: the question would end the capture.
  virtual std::uint64_t identity(DeviceStream stream) = 0;

  // Whether the program has given it more than the usual priority. False where the driver does not say.
  virtual bool is_urgent(DeviceStream stream) = 0;

  // A number of the capture that `stream` is part of; 0 where it captures nothing, lost_capture where nothing can be
  // put into it: its capture was broken and has yet to be ended, or it is the legacy stream while another one captures.
  virtual std::uint64_t capture(DeviceStream stream) = 0;
  // Of a stream under capture: the nodes that its next one comes behind.
  virtual std::vector<void*> ends(DeviceStream stream) = 0;
  // Whether the next one comes behind all of these, by whatever way. False where that is not known.
  virtual bool comes_behind(DeviceStream stream, const std::vector<void*>& nodes) = 0;
  // Of a stream under capture: each launch of the graph waits here for whatever has recorded the event last.
  virtual void wait_outside(DeviceStream stream, DeviceEvent event) = 0;
  // Each launch of the graph records the event when what `stream` has captured so far is done. With a `record` of the
  // same capture its node moves here; nothing in the graph waits for it.
  virtual void record_outside(OutsideRecord& record, DeviceEvent event, DeviceStream stream) = 0;
  // `what` lives as long as the graph that `stream` is captured into and all that is made of it. Its end comes on any
  // thread, where nothing may be asked of CUDA.
  virtual void keep(DeviceStream stream, std::shared_ptr<void> what) = 0;

  // Whether this driver has what the next four take, which throw or return 0 where it does not.
  virtual bool can_keep_graphs() const = 0;
  // Tells an allocation from every other one, gone ones included, whose addresses come again; 0 where the driver does
  // not say.
  virtual std::uint64_t allocation_of(const void* memory) = 0;
  // What `work` puts into `stream`, which is captured meanwhile, and into streams that it forks from it and joins
  // again.
  virtual DeviceGraph record_graph(DeviceStream stream, const std::function<void()>& work) = 0;
  virtual void launch(DeviceGraph graph, DeviceStream stream) = 0;
  // Also while it runs.
  virtual void destroy(DeviceGraph graph) noexcept = 0;

  // `type` matters to kernels that reduce.
  virtual bool has(int kind, ncclDataType_t type) const = 0;
  virtual void launch(int kind, ncclDataType_t type, int channels, int threads, const KernelArguments& arguments,
                      DeviceStream stream) = 0;
  // kernels/meet.h
  virtual void meet(const KernelArguments& arguments, DeviceStream stream) = 0;
  // One after the other. Throws where the driver cannot; can_order_by_words() says so before.
  virtual bool can_order_by_words() const = 0;
  virtual void order_by_words(const WordStep* steps, std::size_t count, DeviceStream stream) = 0;
  // kernels/add.h
  virtual void add(ncclDataType_t type, const AddArguments& arguments, DeviceStream stream) = 0;
  // kernels/slim.h: the same and a copy within this GPU, which run beside products. False where this GPU or build has
  // no such kernel, or not for this type, op, address or size; then nothing was done.
  virtual bool slim_add(ncclDataType_t type, const AddArguments& arguments, DeviceStream stream) = 0;
  virtual bool has_slim_copy() const = 0;
  virtual bool slim_copy(const CopyArguments& arguments, DeviceStream stream) = 0;
  // kernels/norm.h; has_norm() says whether this build has it for the type.
  virtual bool has_norm(ncclDataType_t type) const = 0;
  virtual void norm(NormWay way, ncclDataType_t type, int channels, int threads, const NormArguments& arguments,
                    DeviceStream stream) = 0;
  // Runs `function` on a thread of the driver when all that came before it in the stream is done. It may ask nothing of
  // CUDA.
  virtual void call(DeviceStream stream, void (*function)(void*), void* data) = 0;
  // By the GPU's copy engines, to memory of any GPU.
  virtual void copy(void* to, const void* from, std::size_t bytes, DeviceStream stream) = 0;
};

// The GPUs of this process.
class Devices {
 public:
  virtual ~Devices() = default;
  // Why there is nothing to accelerate for any rank of this kind of process; empty if there may be.
  virtual std::string why_none() = 0;
  virtual std::shared_ptr<Device> open(int ordinal) = 0;
  // How this thread's calls bear on streams that are captured elsewhere (CUstreamCaptureMode); returns what was before.
  virtual int exchange_capture_mode(int mode) = 0;
};

Devices& cuda_devices();
// Those in use: cuda_devices(), or what a test has put in their place.
Devices& devices();
void use_devices(Devices* instead);

// While it lives, what this thread asks of CUDA breaks no capture of the program, whatever mode that has. Around all
// that allocates, frees, opens memory of peers, or looks whether something is done, and around NCCL where it does so
// for us.
class AsideFromCaptures {
 public:
  AsideFromCaptures() : before_(devices().exchange_capture_mode(relaxed)) {}
  ~AsideFromCaptures() { devices().exchange_capture_mode(before_); }
  AsideFromCaptures(const AsideFromCaptures&) = delete;
  AsideFromCaptures& operator=(const AsideFromCaptures&) = delete;

 private:
  static constexpr int relaxed = 2;
  int before_;
};

// Around a call that NCCL does in a capture. NCCL connects to a peer at the first call that wants it, which CUDA
// refuses in a capture; a program warms NCCL up before, but of its calls then we may have taken all that would have
// connected.
class AsideWhereNcclMayConnect {
 public:
  explicit AsideWhereNcclMayConnect(bool captured) {
    if (captured) aside_.emplace();
  }

 private:
  std::optional<AsideFromCaptures> aside_;
};

// Index in kernel_kinds, or -1.
int kind_of(Collective collective, Algorithm algorithm, Protocol protocol);

}  // namespace busbw::gpu

// Memory, streams and pattern kernels of one rank's device: a GPU, or the host itself.
//
// One Device belongs to one rank and is used by one thread at a time. Errors of the device throw Error with the exit
// code `cuda` and a sentence that names the device and the call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "busbw/nccl_abi.h"
#include "engine/core/error.h"
#include "engine/core/pattern.h"
#include "engine/core/plan.h"
#include "engine/core/units.h"

namespace busbw {

struct DeviceInfo {
  enum class Kind { gpu, cpu };
  Kind kind = Kind::cpu;
  int index = 0;       // as the platform numbers devices
  std::string name;    // NVIDIA H200, or the processor's model
  std::string bus_id;  // dddd:bb:dd in hexadecimal; zeros for the host
  int capability = 0;  // 10 * major + minor of a GPU, 0 for the host
  Bytes total_memory;
};

// A recorded sequence of operations that can be started as one. Must not outlive its stream.
class Graph {
 public:
  virtual ~Graph() = default;
  // Before the first launch, and when this thread captures on no stream any more: CUDA forbids it until then.
  virtual void instantiate() = 0;
  virtual void launch() = 0;
};

// Points in time on a stream.
class Events {
 public:
  virtual ~Events() = default;
  virtual void record(std::size_t index) = 0;
  // After the stream has finished.
  virtual Seconds between(std::size_t from, std::size_t to) = 0;
};

class Stream {
 public:
  virtual ~Stream() = default;
  virtual ncclStream_t handle() const = 0;
  // Whether everything enqueued so far has completed; throws when the device reports an error.
  virtual bool finished() = 0;
  virtual std::unique_ptr<Events> make_events(std::size_t count) = 0;
  // Capture in thread-local mode. Throws Error(not_implemented) where the platform has no graphs.
  virtual void begin_capture() = 0;
  virtual std::unique_ptr<Graph> end_capture() = 0;
};

// Work of its own that runs beside what the rank does on its stream.
class Product {
 public:
  virtual ~Product() = default;
  // Begins `count` products, one after the other, and returns at once. Not before the last ones are finished.
  virtual void start(int count) = 0;
  // Waits for them. Seconds from `start` to the end of the last.
  virtual Seconds finish() = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;

  // Makes this device the calling thread's current one; nothing on the host.
  virtual void use() = 0;

  // Device memory by the platform's own allocator, for expected values and where the library offers none.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* memory) noexcept = 0;

  virtual std::unique_ptr<Stream> make_stream(bool null_stream) = 0;

  // Asynchronous on the stream; on the host they are done on return.
  virtual void clear(void* memory, std::size_t bytes, Stream& stream) = 0;
  virtual void copy(void* to, const void* from, std::size_t bytes, Stream& stream) = 0;
  virtual void fill(void* memory, const Pattern& pattern, std::span<const Segment> segments, Stream& stream) = 0;

  // How much of a result is checked at once: expected values take no more memory than this.
  virtual Bytes check_piece() const = 0;

  // Elements of `data` whose bits are further than tolerance_units(pattern) from those of `expected`. Waits for the
  // result.
  virtual std::uint64_t count_wrong(const void* data, const void* expected, std::size_t count, const Pattern& pattern,
                                    Stream& stream) = 0;

  virtual std::unique_ptr<Product> make_product(const ProductShape& shape) = 0;

  // Bytes in use on the device, for the memory report.
  virtual Bytes memory_used() = 0;
};

class Platform {
 public:
  virtual ~Platform() = default;
  virtual int device_count() const = 0;
  virtual std::unique_ptr<Device> open(int index) = 0;
  // Whether calls of a library return before the operation has completed.
  virtual bool asynchronous() const = 0;
};

// Ranks are threads of the processor; as many devices as one likes.
std::unique_ptr<Platform> make_host_platform();

// Null where this build or this machine has no CUDA, and then `why_not` says which and what to try.
std::unique_ptr<Platform> make_cuda_platform(std::string& why_not);

}  // namespace busbw

// GPUs through the CUDA driver: primary contexts, which NCCL's own CUDA runtime shares, plain allocations, streams.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "engine/platform/cuda_driver.h"
#include "engine/platform/cuda_image.h"
#include "engine/platform/cuda_pattern.h"
#include "engine/platform/device.h"
#include "engine/platform/product_thread.h"

namespace busbw {
namespace {

CudaAddress address_of(const void* memory) { return reinterpret_cast<CudaAddress>(memory); }

// The primary context of one GPU, kept while anything uses it: streams and graphs may be destroyed after their Device.
class CudaPrimaryContext {
 public:
  CudaPrimaryContext(const CudaDriver& driver, int index)
      : driver_(driver), where_(format("GPU %d", index)), ordinal_(index) {
    driver_.check(driver_.device_get(&device_, index), "cuDeviceGet", where_);
    driver_.check(driver_.primary_context_retain(&context_, device_), "cuDevicePrimaryCtxRetain", where_);
  }
  ~CudaPrimaryContext() { driver_.primary_context_release(device_); }
  CudaPrimaryContext(const CudaPrimaryContext&) = delete;
  CudaPrimaryContext& operator=(const CudaPrimaryContext&) = delete;

  const CudaDriver& driver() const { return driver_; }
  const std::string& where() const { return where_; }
  CudaDevice device() const { return device_; }
  int ordinal() const { return ordinal_; }

  void use() const { check(driver_.context_set_current(context_), "cuCtxSetCurrent"); }
  // For destructors, which have nobody to tell.
  void use_quietly() const noexcept { driver_.context_set_current(context_); }

  void check(CudaResult result, const char* call) const { driver_.check(result, call, where_); }

 private:
  const CudaDriver& driver_;
  std::string where_;
  int ordinal_ = 0;
  CudaDevice device_ = 0;
  CudaContext context_ = nullptr;
};

using SharedContext = std::shared_ptr<const CudaPrimaryContext>;

class CudaGraphInstance : public Graph {
 public:
  CudaGraphInstance(SharedContext context, CudaGraph recorded, CudaStream stream)
      : context_(std::move(context)), stream_(stream), recorded_(recorded) {}
  ~CudaGraphInstance() override {
    context_->use_quietly();
    if (exec_ != nullptr) context_->driver().graph_exec_destroy(exec_);
    context_->driver().graph_destroy(recorded_);
  }
  void instantiate() override {
    context_->use();
    context_->check(context_->driver().graph_instantiate(&exec_, recorded_, 0), "cuGraphInstantiateWithFlags");
  }
  void launch() override { context_->check(context_->driver().graph_launch(exec_, stream_), "cuGraphLaunch"); }

 private:
  SharedContext context_;
  CudaStream stream_;
  CudaGraph recorded_;
  CudaGraphExec exec_ = nullptr;
};

class CudaEvents : public Events {
 public:
  CudaEvents(SharedContext context, CudaStream stream, std::size_t count)
      : context_(std::move(context)), stream_(stream), events_(context_) {
    events_.list.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      CudaEvent event = nullptr;
      context_->check(context_->driver().event_create(&event, 0), "cuEventCreate");
      events_.list.push_back(event);
    }
  }
  void record(std::size_t index) override {
    context_->check(context_->driver().event_record(events_.list.at(index), stream_), "cuEventRecord");
  }
  Seconds between(std::size_t from, std::size_t to) override {
    float milliseconds = 0;
    context_->check(context_->driver().event_elapsed_time(&milliseconds, events_.list.at(from), events_.list.at(to)),
                    "cuEventElapsedTime");
    return Seconds(milliseconds * 1e-3);
  }

 private:
  // Owns what has been created so far when a later creation throws.
  struct Owned {
    explicit Owned(SharedContext where) : context(std::move(where)) {}
    ~Owned() {
      context->use_quietly();
      for (CudaEvent event : list) context->driver().event_destroy(event);
    }
    Owned(const Owned&) = delete;
    Owned& operator=(const Owned&) = delete;
    SharedContext context;
    std::vector<CudaEvent> list;
  };

  SharedContext context_;
  CudaStream stream_;
  Owned events_;
};

class CudaStreamOwner : public Stream {
 public:
  CudaStreamOwner(SharedContext context, bool null_stream) : context_(std::move(context)) {
    context_->use();
    if (!null_stream) check(driver().stream_create(&stream_, cuda::stream_non_blocking), "cuStreamCreate");
  }
  ~CudaStreamOwner() override {
    if (stream_ == nullptr) return;
    context_->use_quietly();
    driver().stream_destroy(stream_);
  }

  ncclStream_t handle() const override { return stream_; }

  bool finished() override {
    // Which NULL stream is meant depends on the current context; a created stream knows its own.
    if (stream_ == nullptr) context_->use();
    const CudaResult result = driver().stream_query(stream_);
    if (result == cuda::not_ready) return false;
    check(result, "cuStreamQuery");
    return true;
  }

  std::unique_ptr<Events> make_events(std::size_t count) override {
    context_->use();
    return std::make_unique<CudaEvents>(context_, stream_, count);
  }

  void begin_capture() override {
    if (stream_ == nullptr)
      throw Error(ExitCode::invalid_usage, "the NULL stream cannot be captured into a CUDA graph; use -y 1 without -G");
    context_->use();
    check(driver().stream_begin_capture(stream_, cuda::capture_thread_local), "cuStreamBeginCapture");
  }

  std::unique_ptr<Graph> end_capture() override {
    context_->use();
    CudaGraph recorded = nullptr;
    check(driver().stream_end_capture(stream_, &recorded), "cuStreamEndCapture");
    return std::make_unique<CudaGraphInstance>(context_, recorded, stream_);
  }

 private:
  const CudaDriver& driver() const { return context_->driver(); }
  void check(CudaResult result, const char* call) const { context_->check(result, call); }

  SharedContext context_;
  CudaStream stream_ = nullptr;
};

// In a thread and a stream of its own, as another part of a program would.
class CudaProduct final : public Product {
 public:
  CudaProduct(const SharedContext& context, const ProductShape& shape)
      : shape_(shape),
        context_(context),
        stream_(context, false),
        kernels_(context->driver(), context->device(), context->where()),
        left_(context, shape.rows, shape.inner),
        right_(context, shape.inner, shape.columns),
        out_(context, shape.rows, shape.columns),
        thread_([this] { prepare(); }, [this] { multiply(); }, [this] { complete(); }) {}

  void start(int count) override { thread_.start(count); }
  Seconds finish() override { return thread_.finish(); }

 private:
  struct Matrix {
    Matrix(SharedContext where, int one, int other)
        : context(std::move(where)), bytes(sizeof(float) * static_cast<std::size_t>(one) * other) {
      context->use();
      context->check(context->driver().memory_allocate(&address, bytes), "cuMemAlloc of a product");
    }
    ~Matrix() {
      context->use_quietly();
      context->driver().memory_free(address);
    }
    Matrix(const Matrix&) = delete;
    Matrix& operator=(const Matrix&) = delete;
    SharedContext context;
    std::size_t bytes;
    CudaAddress address = 0;
  };

  void prepare() {
    context_->use();
    // Any small numbers: bytes of 0x3e are floats of 0.186.
    for (const Matrix* matrix : {&left_, &right_})
      context_->check(context_->driver().memset_bytes_async(matrix->address, 0x3e, matrix->bytes, stream_.handle()),
                      "cuMemsetD8Async");
  }
  void multiply() { kernels_.multiply(shape_, left_.address, right_.address, out_.address, stream_.handle()); }
  void complete() { context_->check(context_->driver().stream_synchronize(stream_.handle()), "cuStreamSynchronize"); }

  const ProductShape shape_;
  SharedContext context_;
  CudaStreamOwner stream_;
  CudaPatternKernels kernels_;
  Matrix left_, right_, out_;
  ProductThread thread_;  // last: it uses all of the above
};

class CudaGpu : public Device {
 public:
  CudaGpu(const CudaDriver& driver, int index) : context_(std::make_shared<CudaPrimaryContext>(driver, index)) {
    context_->use();
    describe();
    kernels_ = std::make_unique<CudaPatternKernels>(driver, context_->device(), context_->where());
  }
  ~CudaGpu() override { context_->use_quietly(); }

  const DeviceInfo& info() const override { return info_; }
  void use() override { context_->use(); }

  void* allocate(std::size_t bytes) override {
    context_->use();
    CudaAddress address = 0;
    // The driver refuses zero bytes, which a case of size zero asks for.
    const CudaResult result = driver().memory_allocate(&address, std::max<std::size_t>(bytes, 16));
    if (result != cuda::success) driver().fail(result, format("cuMemAlloc of %zu bytes", bytes).c_str(), where());
    return reinterpret_cast<void*>(address);
  }
  void release(void* memory) noexcept override {
    if (memory == nullptr) return;
    context_->use_quietly();
    driver().memory_free(address_of(memory));
  }

  std::unique_ptr<Stream> make_stream(bool null_stream) override {
    return std::make_unique<CudaStreamOwner>(context_, null_stream);
  }

  void clear(void* memory, std::size_t bytes, Stream& stream) override {
    if (bytes == 0) return;
    context_->use();
    context_->check(driver().memset_bytes_async(address_of(memory), 0, bytes, stream.handle()), "cuMemsetD8Async");
  }
  void copy(void* to, const void* from, std::size_t bytes, Stream& stream) override {
    if (bytes == 0) return;
    context_->use();
    context_->check(driver().copy_on_device_async(address_of(to), address_of(from), bytes, stream.handle()),
                    "cuMemcpyDtoDAsync");
  }
  void fill(void* memory, const Pattern& pattern, std::span<const Segment> segments, Stream& stream) override {
    context_->use();
    kernels_->fill(memory, pattern, segments, stream.handle());
  }
  // Large enough that starting kernels and reading a counter cost nothing beside filling it.
  Bytes check_piece() const override { return {256U << 20}; }
  std::uint64_t count_wrong(const void* data, const void* expected, std::size_t count, const Pattern& pattern,
                            Stream& stream) override {
    context_->use();
    return kernels_->count_wrong(data, expected, count, pattern, stream.handle());
  }

  std::unique_ptr<Product> make_product(const ProductShape& shape) override {
    return std::make_unique<CudaProduct>(context_, shape);
  }

  Bytes memory_used() override {
    context_->use();
    std::size_t free = 0;
    std::size_t total = 0;
    context_->check(driver().memory_get_info(&free, &total), "cuMemGetInfo");
    return {total - free};
  }

 private:
  const CudaDriver& driver() const { return context_->driver(); }
  const std::string& where() const { return context_->where(); }

  int attribute(cuda::Attribute which) const {
    int value = 0;
    context_->check(driver().device_get_attribute(&value, which, context_->device()), "cuDeviceGetAttribute");
    return value;
  }

  void describe() {
    info_.kind = DeviceInfo::Kind::gpu;
    info_.index = context_->ordinal();
    char name[256] = "";
    context_->check(driver().device_get_name(name, sizeof name, context_->device()), "cuDeviceGetName");
    info_.name = name;
    info_.bus_id = format("%04x:%02x:%02x", static_cast<unsigned>(attribute(cuda::pci_domain_id)),
                          static_cast<unsigned>(attribute(cuda::pci_bus_id)),
                          static_cast<unsigned>(attribute(cuda::pci_device_id)));
    info_.capability = 10 * attribute(cuda::capability_major) + attribute(cuda::capability_minor);
    context_->check(driver().device_total_memory(&info_.total_memory.count, context_->device()), "cuDeviceTotalMem");
  }

  SharedContext context_;
  DeviceInfo info_;
  std::unique_ptr<CudaPatternKernels> kernels_;
};

class CudaPlatform : public Platform {
 public:
  CudaPlatform(const CudaDriver& driver, int count) : driver_(driver), count_(count) {}
  int device_count() const override { return count_; }
  std::unique_ptr<Device> open(int index) override {
    if (index < 0 || index >= count_)
      throw Error(ExitCode::not_implemented,
                  format("GPU %d was asked for, but this process sees %d; start fewer ranks here, or see "
                         "CUDA_VISIBLE_DEVICES and NCCL_TESTS_DEVICE",
                         index, count_));
    return std::make_unique<CudaGpu>(driver_, index);
  }
  bool asynchronous() const override { return true; }

 private:
  const CudaDriver& driver_;
  int count_ = 0;
};

// A driver of an older major version cannot load what a newer compiler built.
bool driver_covers_build(const CudaDriver& driver, std::string& why_not) {
  int version = 0;
  driver.check(driver.driver_get_version(&version), "cuDriverGetVersion", "this machine");
  const int built = kernel_image_cuda_version();
  if (version / 1000 >= built / 1000) return true;
  why_not = format(
      "the NVIDIA driver is for CUDA %d.%d, but busbw's kernels were built by CUDA %d.%d; update the driver, "
      "or build busbw with CUDA %d",
      version / 1000, version % 1000 / 10, built / 1000, built % 1000 / 10, version / 1000);
  return false;
}

}  // namespace

// Whether this machine has GPUs comes first: a compiler is no help to one that has none.
std::unique_ptr<Platform> make_cuda_platform(std::string& why_not) {
  const CudaDriver* driver = cuda_driver(why_not);
  if (driver == nullptr) return nullptr;
  try {
    int count = 0;
    driver->check(driver->device_get_count(&count), "cuDeviceGetCount", "this machine");
    if (count == 0) {
      why_not = "the CUDA driver sees no GPU; see CUDA_VISIBLE_DEVICES and whether nvidia-smi lists a GPU";
    } else if (kernel_image() == nullptr) {
      why_not =
          "this busbw was built without a CUDA compiler; put nvcc on PATH or set BUSBW_CUDA_ROOT, and build again";
    } else if (driver_covers_build(*driver, why_not)) {
      return std::make_unique<CudaPlatform>(*driver, count);
    }
  } catch (const Error& error) {
    why_not = error.what();
  }
  return nullptr;
}

}  // namespace busbw

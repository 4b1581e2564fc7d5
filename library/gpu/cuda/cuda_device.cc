// Memory, streams and kernels of one GPU through the CUDA driver.
#include "library/gpu/cuda/cuda_device.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

#include "library/common/failure.h"
#include "library/gpu/choose/choice_table.h"
#include "library/gpu/cuda/image.h"

namespace busbw::gpu {
namespace {

// Ranks that the variants of a kernel are for.
constexpr int most_ranks_of[] = {2, 4, 8};

// Threads of all blocks of a kernel that may come to the GPU before its turn.
constexpr int most_early_threads = 16384;

// Of the kernel that adds: many small blocks find room as soon as there is some.
constexpr int threads_of_an_adder = 256;
constexpr unsigned most_blocks_of_adders = 4096;

CudaAddress address(const void* pointer) { return reinterpret_cast<CudaAddress>(pointer); }
void* pointer(CudaAddress address) { return reinterpret_cast<void*>(address); }

std::string kernel_name(const KernelKind& kind, ncclDataType_t type, int most_ranks) {
  std::string name = std::string("busbw_") + busbw::gpu::name(kind.collective) + "_" +
                     busbw::gpu::name(kind.algorithm) + "_" + busbw::gpu::name(kind.protocol);
  if (reduces(kind.collective)) name += std::string("_") + type_name(type);
  return name + "_" + std::to_string(most_ranks);
}

}  // namespace

// Makes the GPU's context current for a while. Launches come from the thread that uses this GPU anyway: there it is one
// question to the driver.
class CudaDevice::Current {
 public:
  explicit Current(const CudaDevice& device) : driver_(device.driver_) {
    CudaContext now = nullptr;
    if (driver_.context_get_current(&now) == cuda::success && now == device.context_) return;
    pushed_ = driver_.context_push(device.context_) == cuda::success;
  }
  ~Current() {
    CudaContext ignored = nullptr;
    if (pushed_) driver_.context_pop(&ignored);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  const Driver& driver_;
  bool pushed_ = false;
};

// The same for what a capture of the program forbids in its mode.
class CudaDevice::Aside {
 public:
  explicit Aside(const CudaDevice& device) : driver_(device.driver_), current_(device) {
    exchanged_ = driver_.exchange_capture_mode(&mode_) == cuda::success;
  }
  ~Aside() {
    if (exchanged_) driver_.exchange_capture_mode(&mode_);
  }
  Aside(const Aside&) = delete;
  Aside& operator=(const Aside&) = delete;

 private:
  const Driver& driver_;
  Current current_;
  int mode_ = cuda::capture_mode_relaxed;
  bool exchanged_ = false;
};

CudaDevice::CudaDevice(const Driver& driver, int ordinal) : driver_(driver) {
  facts_.ordinal = ordinal;
  check(driver_.device_get(&device_, ordinal), "cuDeviceGet");
  // Kept until the process ends, as NCCL and CUDA's runtime do.
  check(driver_.primary_context_retain(&context_, device_), "cuDevicePrimaryCtxRetain");
  context_id_ = id_of(context_);
  const Aside aside(*this);
  learn_facts(device_);
  check(driver_.stream_create(&stream_, cuda::stream_non_blocking), "cuStreamCreate");
  if (driver_.lacks) {
    why_not_ = text("the NVIDIA driver is too old (it has no %s)", driver_.lacks);
    return;
  }
  load_kernels();
}

unsigned long long CudaDevice::id_of(CudaContext context) const {
  unsigned long long id = 0;
  if (!driver_.context_get_id || driver_.context_get_id(context, &id) != cuda::success) return 0;
  return id;
}

bool CudaDevice::lives() const {
  if (context_id_ == 0) return true;
  CudaContext now = nullptr;
  // Once more for each communicator: it is kept until the process ends anyway.
  if (driver_.primary_context_retain(&now, device_) != cuda::success) return true;
  return now == context_ && id_of(now) == context_id_;
}

void CudaDevice::check(CudaResult result, const char* what) const { driver_.check(result, what, facts_.ordinal); }

void CudaDevice::learn_facts(int device) {
  char name[256] = "";
  check(driver_.device_get_name(name, sizeof name, device), "cuDeviceGetName");
  facts_.name = name;
  cuda::Uuid uuid{};
  check(driver_.device_get_uuid(&uuid, device), "cuDeviceGetUuid");
  std::copy(std::begin(uuid.bytes), std::end(uuid.bytes), facts_.uuid.begin());
  const auto attribute = [&](cuda::Attribute which) {
    int value = 0;
    check(driver_.device_get_attribute(&value, which, device), "cuDeviceGetAttribute");
    return value;
  };
  facts_.bus_id = text("%04x:%02x:%02x.0", unsigned(attribute(cuda::pci_domain_id)),
                       unsigned(attribute(cuda::pci_bus_id)), unsigned(attribute(cuda::pci_device_id)));
  facts_.multiprocessors = attribute(cuda::multiprocessor_count);
  overlaps_ = attribute(cuda::compute_capability_major) >= 9;
}

// All of them now: loading one later, while a kernel waits for a peer, can wait for that kernel.
void CudaDevice::load_kernels() {
  std::vector<CudaModule> modules;
  for (int i = 0; i < gpu_kernel_image_count(); ++i) {
    CudaModule module = nullptr;
    const CudaResult result = driver_.module_load_data(&module, gpu_kernel_image(i));
    if (result != cuda::success) {
      why_not_ = "no kernel of this build runs on " + facts_.name + ": " + driver_.describe(result);
      return;
    }
    modules.push_back(module);
  }
  for (std::size_t kind = 0; kind < std::size(kernel_kinds); ++kind)
    for (int type = 0; type < ncclNumTypes; ++type)
      for (std::size_t variant = 0; variant < std::size(most_ranks_of); ++variant)
        kernels_[kind][std::size_t(type)][variant] =
            find_kernel(modules, kernel_name(kernel_kinds[kind], ncclDataType_t(type), most_ranks_of[variant]),
                        most_threads(kernel_kinds[kind], most_ranks_of[variant]));
  for (int type = 0; type < ncclNumTypes; ++type)
    for (std::size_t variant = 0; variant < std::size(most_ranks_of); ++variant)
      adders_[std::size_t(type)][variant] = find_kernel(
          modules,
          std::string("busbw_add_") + type_name(ncclDataType_t(type)) + "_" + std::to_string(most_ranks_of[variant]),
          threads_of_an_adder);
  if (!adders_[ncclFloat32][0]) why_not_ = "this build has no kernel busbw_add_float_2 for " + facts_.name;
  for (const NormWay way : {NormWay::one_shot, NormWay::two_shot, NormWay::alone}) {
    for (const ncclDataType_t type : {ncclFloat16, ncclBfloat16, ncclFloat32}) {
      for (std::size_t variant = 0; variant < std::size(most_ranks_of); ++variant) {
        std::string kernel = std::string("busbw_norm_") + busbw::gpu::name(way) + "_" + type_name(type);
        if (way != NormWay::alone) kernel += text("_%d", most_ranks_of[variant]);
        norms_[std::size_t(way)][std::size_t(type)][variant] = find_kernel(modules, kernel, max_threads);
      }
    }
  }
  meet_ = find_kernel(modules, "busbw_meet", 32);
  if (!meet_) why_not_ = "this build has no kernel busbw_meet for " + facts_.name;
}

// Null where this build has none of this name.
CudaFunction CudaDevice::find_kernel(const std::vector<CudaModule>& modules, const std::string& name,
                                     int threads) const {
  for (const CudaModule module : modules) {
    CudaFunction function = nullptr;
    if (driver_.module_get_function(&function, module, name.c_str()) != cuda::success) continue;
    // With CUDA_MODULE_LOADING=LAZY, the driver's default, this question is what loads it.
    int most = 0;
    if (driver_.function_get_attribute(&most, cuda::most_threads, function) != cuda::success) continue;
    if (most >= threads) return function;
  }
  return nullptr;
}

void* CudaDevice::allocate(std::size_t bytes) {
  const Aside aside(*this);
  CudaAddress memory = 0;
  check(driver_.memory_allocate(&memory, bytes), text("allocating %zu bytes", bytes).c_str());
  fill(pointer(memory), 0, bytes);
  return pointer(memory);
}

void CudaDevice::fill(void* memory, std::uint32_t word, std::size_t bytes) {
  const Aside aside(*this);
  check(driver_.memory_set_32(address(memory), word, bytes / 4, stream_), "cuMemsetD32Async");
  check(driver_.stream_synchronize(stream_), "cuStreamSynchronize");
}

void CudaDevice::release(void* memory) noexcept {
  const Aside aside(*this);
  if (memory) driver_.memory_free(address(memory));
}

HostMemory CudaDevice::allocate_host(std::size_t bytes) {
  const Aside aside(*this);
  HostMemory memory;
  check(driver_.host_allocate(&memory.host, bytes, cuda::host_portable | cuda::host_device_map), "cuMemHostAlloc");
  std::memset(memory.host, 0, bytes);
  CudaAddress on_device = 0;
  check(driver_.host_device_pointer(&on_device, memory.host, 0), "cuMemHostGetDevicePointer");
  memory.device = pointer(on_device);
  return memory;
}

void CudaDevice::release(const HostMemory& memory) noexcept {
  const Aside aside(*this);
  if (memory.host) driver_.host_free(memory.host);
}

MemoryHandle CudaDevice::share(void* memory) {
  const Aside aside(*this);
  cuda::IpcHandle handle{};
  check(driver_.ipc_get_handle(&handle, address(memory)), "cuIpcGetMemHandle");
  MemoryHandle result{};
  static_assert(sizeof result == sizeof handle);
  std::memcpy(result.bytes, handle.bytes, sizeof handle.bytes);
  return result;
}

void* CudaDevice::open(const MemoryHandle& handle) {
  const Aside aside(*this);
  cuda::IpcHandle theirs{};
  std::memcpy(theirs.bytes, handle.bytes, sizeof theirs.bytes);
  CudaAddress opened = 0;
  check(driver_.ipc_open_handle(&opened, theirs, cuda::ipc_lazy_enable_peer_access), "cuIpcOpenMemHandle");
  return pointer(opened);
}

void CudaDevice::close(void* opened) noexcept {
  const Aside aside(*this);
  if (opened) driver_.ipc_close_handle(address(opened));
}

void CudaDevice::reach(int peer_ordinal) {
  int peer = 0;
  check(driver_.device_get(&peer, peer_ordinal), "cuDeviceGet");
  CudaContext context = nullptr;
  // The peer's rank retains it as well, for good.
  check(driver_.primary_context_retain(&context, peer), "cuDevicePrimaryCtxRetain");
  const Aside aside(*this);
  const CudaResult result = driver_.context_enable_peer_access(context, 0);
  if (result != cuda::peer_access_already_enabled) check(result, "cuCtxEnablePeerAccess");
}

DeviceStream CudaDevice::create_stream() {
  const Aside aside(*this);
  ncclStream_t stream = nullptr;
  check(driver_.stream_create(&stream, cuda::stream_non_blocking), "cuStreamCreate");
  return stream;
}

void CudaDevice::destroy(DeviceStream stream) noexcept {
  const Aside aside(*this);
  if (stream) driver_.stream_destroy(stream);
}

void CudaDevice::copy_in(void* to, const void* from_host, std::size_t bytes, DeviceStream stream) {
  const Current current(*this);
  check(driver_.copy_in(address(to), from_host, bytes, stream), "cuMemcpyHtoDAsync");
}

void CudaDevice::copy_out(void* to_host, const void* from, std::size_t bytes, DeviceStream stream) {
  const Current current(*this);
  check(driver_.copy_out(to_host, address(from), bytes, stream), "cuMemcpyDtoHAsync");
}

bool CudaDevice::done(DeviceStream stream) {
  const Aside aside(*this);
  const CudaResult result = driver_.stream_query(stream);
  if (result == cuda::not_ready) return false;
  check(result, "cuStreamQuery");
  return true;
}

DeviceEvent CudaDevice::create_event() {
  const Aside aside(*this);
  {
    const std::lock_guard lock(retired_guard_);
    if (!retired_.empty()) {
      const DeviceEvent event = retired_.back();
      retired_.pop_back();
      return event;
    }
  }
  CudaEvent event = nullptr;
  check(driver_.event_create(&event, cuda::event_disable_timing), "cuEventCreate");
  // A graph may wait for it before anything of ours has recorded it.
  check(driver_.event_record(event, stream_), "cuEventRecord");
  return event;
}

void CudaDevice::retire(DeviceEvent event) noexcept {
  const std::lock_guard lock(retired_guard_);
  retired_.push_back(event);
}

void CudaDevice::destroy(DeviceEvent event) noexcept {
  const Aside aside(*this);
  if (event) driver_.event_destroy(static_cast<CudaEvent>(event));
}

void CudaDevice::record(DeviceEvent event, DeviceStream stream) {
  const Current current(*this);
  check(driver_.event_record(static_cast<CudaEvent>(event), stream), "cuEventRecord");
}

void CudaDevice::wait(DeviceStream stream, DeviceEvent event) {
  const Current current(*this);
  check(driver_.stream_wait_event(stream, static_cast<CudaEvent>(event), 0), "cuStreamWaitEvent");
}

bool CudaDevice::done(DeviceEvent event) {
  const Aside aside(*this);
  const CudaResult result = driver_.event_query(static_cast<CudaEvent>(event));
  if (result == cuda::not_ready) return false;
  check(result, "cuEventQuery");
  return true;
}

std::uint64_t CudaDevice::capture(DeviceStream stream) {
  const Current current(*this);
  cuda::CaptureStatus status = cuda::capture_none;
  std::uint64_t id = 0;
  const CudaResult result = driver_.stream_get_capture_info(stream, &status, &id, nullptr, nullptr, nullptr);
  if (result == cuda::stream_capture_implicit) return lost_capture;
  if (result != cuda::success) return 0;
  return status == cuda::capture_active ? id : status == cuda::capture_invalidated ? lost_capture : 0;
}

std::uint64_t CudaDevice::identity(DeviceStream stream) {
  const Current current(*this);
  unsigned long long id = 0;
  // Of the legacy stream it is this context's, of the per-thread stream this thread's. Ids may begin with 0.
  if (!driver_.stream_get_id || driver_.stream_get_id(stream, &id) != cuda::success) return 0;
  return id + 1;
}

CudaDevice::Captured CudaDevice::captured(DeviceStream stream) const {
  cuda::CaptureStatus status = cuda::capture_none;
  std::uint64_t id = 0;
  Captured captured;
  void** behind = nullptr;
  std::size_t count = 0;
  CudaResult result = driver_.stream_get_capture_info(stream, &status, &id, &captured.graph, &behind, &count);
  if (result != cuda::success && driver_.stream_get_capture_edges) {
    // It does not answer where a kernel may begin before what it is behind has ended. Such an edge counts as a whole
    // one here.
    void* edges = nullptr;
    result = driver_.stream_get_capture_edges(stream, &status, &id, &captured.graph, &behind, &edges, &count);
  }
  check(result, "cuStreamGetCaptureInfo");
  if (status != cuda::capture_active || !captured.graph) {
    throw Failure(ncclUnhandledCudaError, "busbw's GPU library: the capture of a stream has ended within a call.");
  }
  captured.behind.assign(behind, behind + count);
  return captured;
}

std::vector<void*> CudaDevice::ends(DeviceStream stream) {
  const Current current(*this);
  return captured(stream).behind;
}

// Empty where the driver does not tell.
std::vector<void*> CudaDevice::behind_of(void* node) const {
  if (!driver_.node_get_dependencies) return {};
  std::size_t count = 0;
  if (driver_.node_get_dependencies(node, nullptr, &count) != cuda::success || count == 0) return {};
  std::vector<void*> nodes(count);
  CudaResult result = driver_.node_get_dependencies(node, nodes.data(), &count);
  if (result != cuda::success && driver_.node_get_edges) {
    // As for streams: the older question is refused where a kernel may begin early.
    std::vector<cuda::Edge> edges(count);
    result = driver_.node_get_edges(node, nodes.data(), edges.data(), &count);
  }
  if (result != cuda::success) return {};
  nodes.resize(std::min(nodes.size(), count));
  return nodes;
}

bool CudaDevice::comes_behind(DeviceStream stream, const std::vector<void*>& nodes) {
  // Between two calls of a step lie tens of kernels; beyond these an edge more costs less than the search.
  constexpr std::size_t most_looked_at = 512;
  const Current current(*this);
  std::set<void*> missing(nodes.begin(), nodes.end());
  std::set<void*> seen;
  std::vector<void*> next = captured(stream).behind;
  while (!missing.empty() && !next.empty() && seen.size() < most_looked_at) {
    std::vector<void*> further;
    for (void* node : next) {
      missing.erase(node);
      if (seen.insert(node).second) further.push_back(node);
    }
    next.clear();
    for (void* node : further) {
      if (missing.empty() || seen.size() >= most_looked_at) break;
      const std::vector<void*> behind = behind_of(node);
      next.insert(next.end(), behind.begin(), behind.end());
    }
  }
  return missing.empty();
}

void CudaDevice::wait_outside(DeviceStream stream, DeviceEvent event) {
  const Current current(*this);
  check(driver_.stream_wait_event(stream, static_cast<CudaEvent>(event), cuda::wait_external), "cuStreamWaitEvent");
}

// Added to the graph itself and not to the stream: what the stream captures next would wait for it, and a capture must
// end in its first stream, which this node does not lead to.
void CudaDevice::record_outside(OutsideRecord& record, DeviceEvent event, DeviceStream stream) {
  const Current current(*this);
  Captured now = captured(stream);
  if (!record.node) {
    check(driver_.graph_add_event_record(&record.node, now.graph, now.behind.data(), now.behind.size(),
                                         static_cast<CudaEvent>(event)),
          "cuGraphAddEventRecordNode");
  } else {
    const std::vector<void*> old_ends(record.behind.size(), record.node);
    const std::vector<void*> new_ends(now.behind.size(), record.node);
    check(driver_.graph_remove_edges(now.graph, record.behind.data(), old_ends.data(), old_ends.size()),
          "cuGraphRemoveDependencies");
    record.behind.clear();
    check(driver_.graph_add_edges(now.graph, now.behind.data(), new_ends.data(), new_ends.size()),
          "cuGraphAddDependencies");
  }
  record.behind = std::move(now.behind);
}

void CudaDevice::keep(DeviceStream stream, std::shared_ptr<void> what) {
  const Current current(*this);
  const Captured now = captured(stream);
  auto owned = std::make_unique<std::shared_ptr<void>>(std::move(what));
  void* object = nullptr;
  check(driver_.user_object_create(
            &object, owned.get(), [](void* object) { delete static_cast<std::shared_ptr<void>*>(object); }, 1,
            cuda::no_destructor_sync),
        "cuUserObjectCreate");
  owned.release();
  check(driver_.graph_retain_user_object(now.graph, object, 1, cuda::graph_takes), "cuGraphRetainUserObject");
}

bool CudaDevice::has(int kind, ncclDataType_t type) const {
  if (kind < 0) return false;
  const auto& variants = kernels_[std::size_t(kind)][std::size_t(type)];
  return std::none_of(variants.begin(), variants.end(), [](CudaFunction kernel) { return kernel == nullptr; });
}

void CudaDevice::launch(int kind, ncclDataType_t type, int channels, int threads, const KernelArguments& arguments,
                        DeviceStream stream) {
  const Current current(*this);
  std::size_t variant = 0;
  while (most_ranks_of[variant] < arguments.ranks) ++variant;
  void* parameters[] = {const_cast<KernelArguments*>(&arguments)};
  // Brought to the GPU while the kernel before it in the stream ends: kernels wait for that one themselves
  // (kernels/machine.h). Not large ones, whose blocks would take the place of another stream's kernels.
  cuda::LaunchAttribute overlap{.id = cuda::programmatic_stream_serialization, .padding = {}, .value = {1}};
  const cuda::LaunchConfig config{.grid_x = unsigned(channels),
                                  .grid_y = 1,
                                  .grid_z = 1,
                                  .block_x = unsigned(threads),
                                  .block_y = 1,
                                  .block_z = 1,
                                  .shared_bytes = 0,
                                  .stream = stream,
                                  .attributes = &overlap,
                                  .attribute_count = overlaps_ && channels * threads <= most_early_threads ? 1u : 0u};
  check(driver_.launch(&config, kernels_[std::size_t(kind)][std::size_t(type)][variant], parameters, nullptr),
        "cuLaunchKernelEx");
}

void CudaDevice::meet(const KernelArguments& arguments, DeviceStream stream) {
  const Current current(*this);
  void* parameters[] = {const_cast<KernelArguments*>(&arguments)};
  const cuda::LaunchConfig config{.grid_x = 1,
                                  .grid_y = 1,
                                  .grid_z = 1,
                                  .block_x = 32,
                                  .block_y = 1,
                                  .block_z = 1,
                                  .shared_bytes = 0,
                                  .stream = stream,
                                  .attributes = nullptr,
                                  .attribute_count = 0};
  check(driver_.launch(&config, meet_, parameters, nullptr), "cuLaunchKernelEx");
}

void CudaDevice::order_by_words(const WordStep* steps, std::size_t count, DeviceStream stream) {
  const Current current(*this);
  // As many as the driver takes at once.
  constexpr std::size_t most = 64;
  while (count > 0) {
    cuda::WordOperation operations[most]{};
    const std::size_t now = std::min(count, most);
    for (std::size_t i = 0; i < now; ++i) {
      operations[i].operation = steps[i].waits ? cuda::wait_value_32 : cuda::write_value_32;
      operations[i].address = address(steps[i].word);
      operations[i].value = steps[i].value;
      operations[i].flags = steps[i].waits ? cuda::wait_until_equal : cuda::write_after_all_before;
    }
    check(driver_.order_by_words(stream, unsigned(now), operations, 0), "cuStreamBatchMemOp");
    steps += now;
    count -= now;
  }
}

void CudaDevice::norm(NormWay way, ncclDataType_t type, int channels, int threads, const NormArguments& arguments,
                      DeviceStream stream) {
  const Current current(*this);
  std::size_t variant = 0;
  while (way != NormWay::alone && most_ranks_of[variant] < arguments.all.ranks) ++variant;
  void* parameters[] = {const_cast<NormArguments*>(&arguments)};
  cuda::LaunchAttribute overlap{.id = cuda::programmatic_stream_serialization, .padding = {}, .value = {1}};
  const cuda::LaunchConfig config{.grid_x = unsigned(channels),
                                  .grid_y = 1,
                                  .grid_z = 1,
                                  .block_x = unsigned(threads),
                                  .block_y = 1,
                                  .block_z = 1,
                                  .shared_bytes = 0,
                                  .stream = stream,
                                  .attributes = &overlap,
                                  .attribute_count = overlaps_ && channels * threads <= most_early_threads ? 1u : 0u};
  check(driver_.launch(&config, norms_[std::size_t(way)][std::size_t(type)][variant], parameters, nullptr),
        "cuLaunchKernelEx");
}

void CudaDevice::add(ncclDataType_t type, const AddArguments& arguments, DeviceStream stream) {
  const Current current(*this);
  std::size_t variant = 0;
  while (most_ranks_of[variant] < arguments.ranks) ++variant;
  const std::uint64_t packs = (arguments.bytes + 15) / 16;
  const std::uint64_t of_a_block = 2 * std::uint64_t(threads_of_an_adder);
  void* parameters[] = {const_cast<AddArguments*>(&arguments)};
  const cuda::LaunchConfig config{
      .grid_x = unsigned(std::min<std::uint64_t>((packs + of_a_block - 1) / of_a_block, most_blocks_of_adders)),
      .grid_y = 1,
      .grid_z = 1,
      .block_x = threads_of_an_adder,
      .block_y = 1,
      .block_z = 1,
      .shared_bytes = 0,
      .stream = stream,
      .attributes = nullptr,
      .attribute_count = 0};
  check(driver_.launch(&config, adders_[std::size_t(type)][variant], parameters, nullptr), "cuLaunchKernelEx");
}

void CudaDevice::call(DeviceStream stream, void (*function)(void*), void* data) {
  const Current current(*this);
  check(driver_.call_host(stream, function, data), "cuLaunchHostFunc");
}

void CudaDevice::copy(void* to, const void* from, std::size_t bytes, DeviceStream stream) {
  const Current current(*this);
  check(driver_.copy_on_device(address(to), address(from), bytes, stream), "cuMemcpyDtoDAsync");
}

// Ranges of the program's memory
// ---------------------------------------------------------------------------------------------------

void CudaDevice::check_range_functions() const {
  if (driver_.lacks_for_ranges) {
    throw Failure(ncclUnhandledCudaError,
                  text("the NVIDIA driver is too old (it has no %s)", driver_.lacks_for_ranges));
  }
}

RangeHandle CudaDevice::share_range(const void* memory, std::size_t bytes, Descriptor& descriptor) {
  check_range_functions();
  const Aside aside(*this);
  CudaAddress base = 0;
  RangeHandle range{};
  std::size_t allocation = 0;
  check(driver_.memory_get_range(&base, &allocation, address(memory)), "cuMemGetAddressRange");
  range.offset = address(memory) - base;
  range.allocation = allocation;
  if (range.offset + bytes > range.allocation) {
    throw Failure(ncclInvalidUsage, "the window goes over the end of its allocation");
  }
  cuda::AllocationHandle allocated = 0;
  if (driver_.allocation_retain(&allocated, const_cast<void*>(memory)) == cuda::success) {
    range.by_descriptor = 1;
    int file = -1;
    const CudaResult result = driver_.allocation_export(&file, allocated, cuda::posix_file_descriptor, 0);
    driver_.allocation_release(allocated);
    check(result, "cuMemExportToShareableHandle");
    descriptor = Descriptor(file);
  } else {
    range.handle = share(pointer(base));
  }
  return range;
}

void* CudaDevice::open_range(const RangeHandle& range, const Descriptor& descriptor) {
  if (!range.by_descriptor) return open(range.handle);
  check_range_functions();
  const Aside aside(*this);
  cuda::AllocationHandle allocated = 0;
  check(driver_.allocation_import(&allocated, reinterpret_cast<void*>(std::intptr_t(descriptor.get())),
                                  cuda::posix_file_descriptor),
        "cuMemImportFromShareableHandle");
  CudaAddress opened = 0;
  CudaResult result = driver_.address_reserve(&opened, range.allocation, 0, 0, 0);
  if (result == cuda::success) {
    result = driver_.memory_map(opened, range.allocation, 0, allocated, 0);
    if (result == cuda::success) {
      const cuda::AccessDescription access{.type = cuda::location_device, .id = device_, .flags = cuda::access_both};
      result = driver_.memory_set_access(opened, range.allocation, &access, 1);
      if (result != cuda::success) driver_.memory_unmap(opened, range.allocation);
    }
    if (result != cuda::success) driver_.address_free(opened, range.allocation);
  }
  // The mapping keeps the memory.
  driver_.allocation_release(allocated);
  check(result, "mapping a peer's memory (cuMemMap, cuMemSetAccess)");
  return pointer(opened);
}

void CudaDevice::close_range(const RangeHandle& range, void* opened) noexcept {
  if (!range.by_descriptor) return close(opened);
  const Aside aside(*this);
  driver_.memory_unmap(address(opened), range.allocation);
  driver_.address_free(address(opened), range.allocation);
}

void CudaDevice::check_reach(const void* memory) {
  check_range_functions();
  const Aside aside(*this);
  const cuda::Location location{.type = cuda::location_device, .id = device_};
  unsigned long long flags = 0;
  check(driver_.memory_get_access(&flags, &location, address(memory)), "cuMemGetAccess");
  if (flags != cuda::access_both) {
    throw Failure(ncclUnhandledCudaError,
                  text("GPU %d has no access to a window of a peer in the same process", facts_.ordinal));
  }
}

namespace {

class CudaDevices : public Devices {
 public:
  std::string why_none() override {
    if (gpu_kernel_image_count() == 0) return "this library was built without a CUDA compiler";
    std::string why_not;
    return driver(why_not) ? "" : why_not;
  }

  std::shared_ptr<Device> open(int ordinal) override {
    const std::lock_guard lock(guard_);
    std::shared_ptr<CudaDevice>& device = opened_[ordinal];
    if (!device || !device->lives()) {
      std::string why_not;
      const Driver* loaded = driver(why_not);
      if (!loaded) throw Failure(ncclSystemError, why_not);
      device = std::make_shared<CudaDevice>(*loaded, ordinal);
    }
    return device;
  }

  int exchange_capture_mode(int mode) override {
    std::string why_not;
    const Driver* loaded = driver(why_not);
    if (loaded) loaded->exchange_capture_mode(&mode);
    return mode;
  }

 private:
  std::mutex guard_;
  std::map<int, std::shared_ptr<CudaDevice>> opened_;
};

}  // namespace

Devices& cuda_devices() {
  // Never destroyed: threads of ours may still give memory back while the process ends.
  static auto* all = new CudaDevices;
  return *all;
}

}  // namespace busbw::gpu

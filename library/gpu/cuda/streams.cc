// Streams of one GPU, their events, and what a program captures them into.
#include <algorithm>
#include <set>

#include "library/common/failure.h"
#include "library/gpu/cuda/current.h"

namespace busbw::gpu {

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

DeviceEvent CudaDevice::create_timer() {
  const Aside aside(*this);
  CudaEvent event = nullptr;
  check(driver_.event_create(&event, cuda::event_default), "cuEventCreate");
  return event;
}

double CudaDevice::milliseconds(DeviceEvent from, DeviceEvent to) {
  const Aside aside(*this);
  float found = 0;
  check(driver_.event_elapsed(&found, static_cast<CudaEvent>(from), static_cast<CudaEvent>(to)), "cuEventElapsedTime");
  return double(found);
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

bool CudaDevice::is_urgent(DeviceStream stream) {
  const Current current(*this);
  int priority = 0;  // the lower the number, the more urgent
  return driver_.stream_get_priority(stream, &priority) == cuda::success && priority < 0;
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

std::uint64_t CudaDevice::allocation_of(const void* memory) {
  const Current current(*this);
  unsigned long long number = 0;
  if (!can_keep_graphs() ||
      driver_.pointer_get_attribute(&number, cuda::allocation_number, address(memory)) != cuda::success)
    return 0;
  return number;
}

std::size_t CudaDevice::free_memory() {
  const Current current(*this);
  std::size_t free = 0;
  std::size_t total = 0;
  if (!can_keep_graphs() || driver_.memory_get_info(&free, &total) != cuda::success) return 0;
  return free;
}

DeviceGraph CudaDevice::record_graph(DeviceStream stream, const std::function<void()>& work) {
  const Aside aside(*this);
  check(driver_.stream_begin_capture(stream, cuda::capture_mode_relaxed), "cuStreamBeginCapture");
  void* graph = nullptr;
  try {
    work();
  } catch (...) {
    if (driver_.stream_end_capture(stream, &graph) == cuda::success && graph) driver_.graph_destroy(graph);
    throw;
  }
  check(driver_.stream_end_capture(stream, &graph), "cuStreamEndCapture");
  void* executable = nullptr;
  const CudaResult result = driver_.graph_instantiate(&executable, graph, 0);
  driver_.graph_destroy(graph);
  check(result, "cuGraphInstantiateWithFlags");
  return static_cast<DeviceGraph>(executable);
}

void CudaDevice::launch(DeviceGraph graph, DeviceStream stream) {
  const Current current(*this);
  check(driver_.graph_launch(graph, stream), "cuGraphLaunch");
}

void CudaDevice::destroy(DeviceGraph graph) noexcept {
  const Aside aside(*this);
  if (graph) driver_.graph_exec_destroy(graph);
}

void CudaDevice::call(DeviceStream stream, void (*function)(void*), void* data) {
  const Current current(*this);
  check(driver_.call_host(stream, function, data), "cuLaunchHostFunc");
}

}  // namespace busbw::gpu

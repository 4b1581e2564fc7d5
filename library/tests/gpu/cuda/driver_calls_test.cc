// What a GPU's object asks of the CUDA driver: which calls are kept aside from the program's captures, and what it adds
// to a graph that the program captures. The driver here writes down what it is asked for.
#include <gtest/gtest.h>

#include <array>
#include <cstdarg>
#include <map>
#include <set>

#include "library/common/failure.h"
#include "library/gpu/cuda/cuda_device.h"

namespace busbw::gpu::test {
namespace {

using Notes = std::vector<std::string>;

// A graph under capture, and what a stream's next node would be behind.
struct Recorder {
  int mode = 0;  // of this thread, as the program has left it
  Notes broken;  // calls that would have broken a capture in global mode
  std::set<std::pair<std::uintptr_t, std::uintptr_t>> edges;
  std::vector<void*> behind;
  int record_nodes = 0;
  unsigned wait_flags = 0;
  bool capturing = true;
  void (*end)(void*) = nullptr;
  void* object = nullptr;
  unsigned long long stream_id = 0;
};
Recorder* recorder = nullptr;

constexpr CudaResult fine = cuda::success;  // of their own type, as the driver's functions are

CudaResult forbidden(const char* what) {
  if (recorder->mode != cuda::capture_mode_relaxed) recorder->broken.push_back(what);
  return fine;
}
void* node(std::uintptr_t number) { return reinterpret_cast<void*>(number); }
std::uintptr_t number(const void* node) { return reinterpret_cast<std::uintptr_t>(node); }

void add_memory(Driver& d) {
  d.memory_allocate = [](CudaAddress* memory, std::size_t) { return *memory = 4096, forbidden("cuMemAlloc"); };
  d.memory_free = [](CudaAddress) { return forbidden("cuMemFree"); };
  d.memory_set_32 = [](CudaAddress, unsigned, std::size_t, ncclStream_t) { return fine; };
  d.host_allocate = [](void** memory, std::size_t, unsigned) {
    static unsigned char host[64];
    return *memory = host, forbidden("cuMemHostAlloc");
  };
  d.host_free = [](void*) { return forbidden("cuMemFreeHost"); };
  d.host_device_pointer = [](CudaAddress* address, void*, unsigned) { return *address = 1, fine; };
  d.ipc_get_handle = [](cuda::IpcHandle*, CudaAddress) { return forbidden("cuIpcGetMemHandle"); };
  d.ipc_open_handle = [](CudaAddress* memory, cuda::IpcHandle, unsigned) {
    return *memory = 8192, forbidden("cuIpcOpenMemHandle");
  };
  d.ipc_close_handle = [](CudaAddress) { return forbidden("cuIpcCloseMemHandle"); };
}

void add_streams_and_events(Driver& d) {
  d.stream_create = [](ncclStream_t* stream, unsigned) {
    *stream = reinterpret_cast<ncclStream_t>(std::uintptr_t{500});
    return forbidden("cuStreamCreate");
  };
  d.stream_get_id = [](ncclStream_t, unsigned long long* id) { return *id = recorder->stream_id, fine; };
  d.stream_destroy = [](ncclStream_t) { return forbidden("cuStreamDestroy"); };
  d.stream_query = [](ncclStream_t) { return forbidden("cuStreamQuery"); };
  d.stream_synchronize = [](ncclStream_t) { return forbidden("cuStreamSynchronize"); };
  d.stream_wait_event = [](ncclStream_t, CudaEvent, unsigned flags) { return recorder->wait_flags = flags, fine; };
  d.event_create = [](CudaEvent* event, unsigned) {
    static std::uintptr_t last = 900;
    *event = reinterpret_cast<CudaEvent>(++last);
    return forbidden("cuEventCreate");
  };
  d.event_destroy = [](CudaEvent) { return forbidden("cuEventDestroy"); };
  d.event_record = [](CudaEvent, ncclStream_t) { return fine; };
  d.event_query = [](CudaEvent) { return forbidden("cuEventQuery"); };
}

void add_graphs(Driver& d) {
  d.exchange_capture_mode = [](int* mode) { return std::swap(*mode, recorder->mode), fine; };
  d.stream_get_capture_info = [](ncclStream_t, cuda::CaptureStatus* status, std::uint64_t* id, void* graph,
                                 void* behind, void* count) -> CudaResult {
    *status = recorder->capturing ? cuda::capture_active : cuda::capture_none;
    *id = 42;
    if (!recorder->capturing) return fine;
    if (graph) *static_cast<void**>(graph) = node(7000);
    if (behind) *static_cast<void***>(behind) = recorder->behind.data();
    if (count) *static_cast<std::size_t*>(count) = recorder->behind.size();
    return fine;
  };
  d.graph_add_event_record = [](void** made, void* graph, void* const* behind, std::size_t count, CudaEvent) {
    EXPECT_EQ(graph, node(7000));
    *made = node(100);
    ++recorder->record_nodes;
    for (std::size_t i = 0; i < count; ++i) recorder->edges.insert({number(behind[i]), 100});
    return fine;
  };
  d.graph_add_edges = [](void*, void* const* from, void* const* to, std::size_t count) -> CudaResult {
    for (std::size_t i = 0; i < count; ++i)
      if (!recorder->edges.insert({number(from[i]), number(to[i])}).second) return 1;  // as the driver: twice is wrong
    return fine;
  };
  d.graph_remove_edges = [](void*, void* const* from, void* const* to, std::size_t count) -> CudaResult {
    for (std::size_t i = 0; i < count; ++i)
      if (recorder->edges.erase({number(from[i]), number(to[i])}) == 0) return 1;
    return fine;
  };
  d.user_object_create = [](void** made, void* object, void (*end)(void*), unsigned, unsigned) {
    recorder->object = object;
    recorder->end = end;
    return *made = object, fine;
  };
  d.graph_retain_user_object = [](void*, void*, unsigned, unsigned flags) {
    EXPECT_EQ(flags, cuda::graph_takes);
    return fine;
  };
}

Driver recording_driver() {
  Driver d;
  d.get_error_name = [](CudaResult, const char** text) { return *text = "an error", fine; };
  d.get_error_string = d.get_error_name;
  d.device_get = [](int* device, int ordinal) { return *device = ordinal, fine; };
  d.device_get_name = [](char* name, int, int) { return name[0] = 'G', name[1] = 0, fine; };
  d.device_get_uuid = [](cuda::Uuid*, int) { return fine; };
  d.device_get_attribute = [](int* value, cuda::Attribute, int) { return *value = 9, fine; };
  d.primary_context_retain = [](CudaContext* context, int) {
    *context = reinterpret_cast<CudaContext>(std::uintptr_t{77});
    return fine;
  };
  d.context_get_current = [](CudaContext* context) {
    *context = reinterpret_cast<CudaContext>(std::uintptr_t{77});
    return fine;
  };
  d.context_push = [](CudaContext) { return fine; };
  d.context_pop = [](CudaContext*) { return fine; };
  d.context_enable_peer_access = [](CudaContext, unsigned) { return forbidden("cuCtxEnablePeerAccess"); };
  d.module_load_data = [](CudaModule*, const void*) { return forbidden("cuModuleLoadData"); };
  d.module_get_function = [](CudaFunction*, CudaModule, const char*) { return CudaResult(cuda::not_found); };
  add_memory(d);
  add_streams_and_events(d);
  add_graphs(d);
  return d;
}

class DriverCalls : public ::testing::Test {
 protected:
  DriverCalls() {
    recorder = &seen;
    driver = recording_driver();
    device = std::make_unique<CudaDevice>(driver, 0);
  }
  static ncclStream_t stream() { return reinterpret_cast<ncclStream_t>(std::uintptr_t{8}); }
  using Edges = std::set<std::pair<std::uintptr_t, std::uintptr_t>>;

  Recorder seen;
  Driver driver;
  std::unique_ptr<CudaDevice> device;
};

TEST_F(DriverCalls, NothingThatACaptureForbidsIsAskedForOutsideOfRelaxedMode) {
  seen.broken.clear();
  device->release(device->allocate(64));
  device->fill(nullptr, 1, 4);
  device->release(device->allocate_host(64));
  device->share(nullptr);
  device->close(device->open(MemoryHandle{}));
  device->reach(1);
  device->destroy(device->create_stream());
  const DeviceEvent event = device->create_event();
  device->done(event);
  device->destroy(event);
  device->done(stream());
  EXPECT_EQ(seen.broken, Notes{});
  EXPECT_EQ(seen.mode, 0) << "the thread's mode must be as it was";
}

TEST_F(DriverCalls, TheNodeThatRecordsForOutsideIsOneAndComesBehindTheLastCall) {
  OutsideRecord record;
  seen.behind = {node(1), node(2)};
  device->record_outside(record, device->create_event(), stream());
  EXPECT_EQ(seen.edges, (Edges{{1, 100}, {2, 100}}));
  seen.behind = {node(2), node(3)};
  device->record_outside(record, device->create_event(), stream());
  seen.behind = {node(4)};
  device->record_outside(record, device->create_event(), stream());
  EXPECT_EQ(seen.edges, (Edges{{4, 100}}));
  EXPECT_EQ(seen.record_nodes, 1);
}

TEST_F(DriverCalls, EdgesThatTheOlderQuestionDoesNotTellAreAskedForByTheNewerOne) {
  driver.stream_get_capture_info = [](ncclStream_t, cuda::CaptureStatus*, std::uint64_t*, void*, void*, void*) {
    return CudaResult(1);  // its refusal of edges with data
  };
  driver.stream_get_capture_edges = [](ncclStream_t stream, cuda::CaptureStatus* status, std::uint64_t* id, void* graph,
                                       void* behind, void*, void* count) {
    return recording_driver().stream_get_capture_info(stream, status, id, graph, behind, count);
  };
  OutsideRecord record;
  seen.behind = {node(5)};
  device->record_outside(record, device->create_event(), stream());
  EXPECT_EQ(seen.edges, (Edges{{5, 100}}));
}

// 1 <- 2 <- 3 and 4 <- 5: who comes behind 3 comes behind 1 and 2 as well.
TEST_F(DriverCalls, WhatANodeComesBehindIsFoundThroughOthers) {
  seen.edges = {{1, 2}, {2, 3}, {4, 5}};
  seen.behind = {node(3)};
  const auto all_behind = [&](const std::vector<void*>& nodes) { return device->comes_behind(stream(), nodes); };
  EXPECT_TRUE(all_behind({node(3)}));
  EXPECT_FALSE(all_behind({node(1)})) << "a driver that tells nothing more";
  driver.node_get_dependencies = [](void* of, void** nodes, std::size_t* count) {
    std::size_t found = 0;
    for (const auto& [from, to] : recorder->edges) {
      if (to != number(of)) continue;
      if (nodes) nodes[found] = node(from);
      ++found;
    }
    return *count = found, fine;
  };
  EXPECT_EQ(device->ends(stream()), std::vector<void*>{node(3)});
  EXPECT_TRUE(all_behind({node(1)}));
  EXPECT_TRUE(all_behind({node(3), node(1), node(2)}));
  EXPECT_FALSE(all_behind({node(4)}));
  EXPECT_FALSE(all_behind({node(1), node(4)}));
  seen.behind = {node(2), node(5)};
  EXPECT_TRUE(all_behind({node(1), node(4)}));
  EXPECT_FALSE(all_behind({node(3)})) << "it comes before that";
  seen.behind.clear();
  EXPECT_FALSE(all_behind({node(1)}));
}

TEST_F(DriverCalls, EdgesOfANodeThatTheOlderQuestionDoesNotTellAreAskedForByTheNewerOne) {
  seen.behind = {node(3)};
  driver.node_get_dependencies = [](void*, void** nodes, std::size_t* count) {
    return *count = 1, CudaResult(nodes ? 1 : 0);
  };
  EXPECT_FALSE(device->comes_behind(stream(), {node(2)}));
  driver.node_get_edges = [](void* of, void** nodes, cuda::Edge*, std::size_t* count) {
    *nodes = node(number(of) - 1);
    return *count = 1, fine;
  };
  EXPECT_TRUE(device->comes_behind(stream(), {node(2)}));
}

TEST_F(DriverCalls, ASearchThroughAGraphThatNeverEndsDoes) {
  static std::uintptr_t looked_at;
  looked_at = 0;
  seen.behind = {node(1000000)};
  driver.node_get_dependencies = [](void* of, void** nodes, std::size_t* count) {
    if (nodes) ++looked_at, *nodes = node(number(of) - 1);
    return *count = 1, fine;
  };
  EXPECT_FALSE(device->comes_behind(stream(), {node(1)}));
  EXPECT_LT(looked_at, 1000U);
}

TEST_F(DriverCalls, AWaitForOutsideSaysSo) {
  device->wait(stream(), device->create_event());
  EXPECT_EQ(seen.wait_flags, 0u);
  device->wait_outside(stream(), device->create_event());
  EXPECT_EQ(seen.wait_flags, cuda::wait_external);
}

TEST_F(DriverCalls, WhatAGraphKeepsGoesWithIt) {
  auto kept = std::make_shared<int>(1);
  device->keep(stream(), kept);
  EXPECT_EQ(kept.use_count(), 2);
  seen.end(seen.object);
  EXPECT_EQ(kept.use_count(), 1);
}

TEST_F(DriverCalls, ACaptureThatHasEndedIsAnErrorAndNoCrash) {
  seen.capturing = false;
  OutsideRecord record;
  EXPECT_THROW(device->record_outside(record, device->create_event(), stream()), Failure);
  EXPECT_THROW(device->keep(stream(), std::make_shared<int>(1)), Failure);
}

TEST_F(DriverCalls, ARetiredEventIsUsedAgain) {
  const DeviceEvent event = device->create_event();
  device->retire(event);
  EXPECT_EQ(device->create_event(), event);
  EXPECT_NE(device->create_event(), event);
}

TEST_F(DriverCalls, AnIdentityOfZeroMeansThatTheDriverDoesNotTell) {
  EXPECT_NE(device->identity(stream()), 0u) << "the driver's own numbers may begin with 0";
  driver.stream_get_id = nullptr;
  EXPECT_EQ(device->identity(stream()), 0u);
}

TEST_F(DriverCalls, ABrokenCaptureAndTheLegacyStreamBesideOneAreTold) {
  EXPECT_EQ(device->capture(stream()), 42u);
  driver.stream_get_capture_info = [](ncclStream_t, cuda::CaptureStatus* status, std::uint64_t* id, void*, void*,
                                      void*) {
    *status = cuda::capture_invalidated;
    return *id = 42, fine;
  };
  EXPECT_EQ(device->capture(stream()), lost_capture);
  driver.stream_get_capture_info = [](ncclStream_t, cuda::CaptureStatus*, std::uint64_t*, void*, void*, void*) {
    return CudaResult(cuda::stream_capture_implicit);
  };
  EXPECT_EQ(device->capture(stream()), lost_capture);
}

TEST_F(DriverCalls, ALaunchSaysHowManyBlocksAndWhetherTheyMayComeEarly) {
  using Launches = std::vector<std::array<unsigned, 3>>;  // blocks, threads, attributes
  static Launches launches;
  launches.clear();
  driver.launch = [](const cuda::LaunchConfig* config, CudaFunction, void**, void**) {
    launches.push_back({config->grid_x, config->block_x, config->attribute_count});
    return fine;
  };
  KernelArguments arguments{};
  arguments.ranks = 2;
  device->launch(0, ncclFloat32, 4, 512, arguments, stream());
  device->launch(0, ncclFloat32, 64, 512, arguments, stream());
  device->meet(arguments, stream());
  NormArguments norm{};
  norm.all.ranks = 8;
  device->norm(NormWay::one_shot, ncclFloat16, 8, 1024, norm, stream());
  device->norm(NormWay::alone, ncclFloat16, 132, 1024, norm, stream());
  AddArguments add{};
  add.ranks = 2;
  add.bytes = 1 << 16;
  device->add(ncclFloat32, add, stream());
  EXPECT_EQ(launches, (Launches{{4, 512, 1}, {64, 512, 0}, {1, 32, 0}, {8, 1024, 1}, {132, 1024, 0}, {8, 256, 0}}));
}

// cudaDeviceReset: the handle of the new context is that of the old one.
TEST_F(DriverCalls, AGpuThatWasResetIsAnotherOne) {
  EXPECT_TRUE(device->lives()) << "a driver that tells no contexts apart";
  static unsigned long long context = 5;
  driver.context_get_id = [](CudaContext, unsigned long long* id) { return *id = context, fine; };
  const CudaDevice made(driver, 0);
  EXPECT_TRUE(made.lives());
  ++context;
  EXPECT_FALSE(made.lives());
}

}  // namespace
}  // namespace busbw::gpu::test

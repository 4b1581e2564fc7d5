// A CUDA driver for tests of the recorder, without a GPU: streams run work of a given length one after the other on a
// clock of their own, events hold stamps of that clock, graphs hold lengths of work. With FAKE_CUDA_COSTS=A,B,C,D
// noting an event takes A ns of a processor, asking for one B, asking for a capture C, and every other question D.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "library/tests/record/takes.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

struct Graph {
  std::vector<double> work_ns;
};

std::mutex guard;
std::map<const void*, double> free_at;
std::map<const void*, Graph*> captures;

// Time passes only while somebody waits for it, so that a busy machine changes no length. It begins ahead of the
// host's.
double now = 1e15;
// What every question is answered with, where it is not 0.
int failed = 0;

struct Event {
  double at = -1;
  bool has_times = true;
};
// All of them, as nobody gives one back.
std::vector<std::unique_ptr<Event>> events;

enum Cost { to_note, to_ask, to_ask_for_captures, otherwise };
void costs(Cost which) {
  static const auto all = busbw::record::numbers<4>("FAKE_CUDA_COSTS");
  busbw::record::take(all[which]);
}

void run(const void* stream, double ns) { free_at[stream] = std::max(now, free_at[stream]) + ns; }

}  // namespace

// What an NCCL for tests asks for.
EXPORT void fakeCudaWork(const void* stream, double ns) {
  const std::lock_guard lock(guard);
  const auto capture = captures.find(stream);
  capture == captures.end() ? run(stream, ns) : capture->second->work_ns.push_back(ns);
}

EXPORT void fakeCudaFail(int error) {
  const std::lock_guard lock(guard);
  failed = error;
}

EXPORT std::size_t fakeCudaEvents() {
  const std::lock_guard lock(guard);
  return events.size();
}

EXPORT int cuStreamIsCapturing(const void* stream, int* status) {
  costs(to_ask_for_captures);
  const std::lock_guard lock(guard);
  *status = captures.count(stream) ? 1 : 0;
  return 0;
}

EXPORT int cuStreamGetCaptureInfo_v2(const void* stream, int* status, std::uint64_t* id, void** graph, void*,
                                     std::size_t*) {
  const std::lock_guard lock(guard);
  const auto capture = captures.find(stream);
  *status = capture == captures.end() ? 0 : 1;
  *id = 1;
  if (*status) *graph = capture->second;
  return 0;
}

EXPORT int cuThreadExchangeStreamCaptureMode(int*) { return costs(otherwise), 0; }
EXPORT int cuCtxGetCurrent(void** context) {
  costs(otherwise);
  return *context = reinterpret_cast<void*>(0x77), 0;
}
// The program may have another GPU current than the communicator's.
EXPORT int cuCtxGetDevice(int* device) {
  const char* other = std::getenv("FAKE_CUDA_DEVICE");
  return *device = other ? std::atoi(other) : 0, 0;
}
EXPORT int cuCtxSetCurrent(void* context) { return context == reinterpret_cast<void*>(0x77) ? 0 : 201; }
EXPORT int cuStreamGetCtx(const void*, void** context) { return *context = reinterpret_cast<void*>(0x77), 0; }

// With times, or without.
EXPORT int cuEventCreate(void** event, unsigned flags) {
  if (flags != 0 && flags != 2) return 1;
  const std::lock_guard lock(guard);
  events.push_back(std::make_unique<Event>(Event{-1, flags == 0}));
  return *event = events.back().get(), 0;
}
EXPORT int cuEventRecord(void* event, const void* stream) {
  costs(to_note);
  const std::lock_guard lock(guard);
  // An event that a graph takes tells no time.
  if (captures.count(stream)) return 900;
  static_cast<Event*>(event)->at = std::max(now, free_at[stream]);
  return 0;
}
EXPORT int cuEventQuery(void* event) {
  costs(to_ask);
  const std::lock_guard lock(guard);
  if (failed) return failed;
  return static_cast<Event*>(event)->at <= now ? 0 : 600;
}
EXPORT int cuEventElapsedTime(float* ms, void* from, void* to) {
  costs(to_ask);
  const std::lock_guard lock(guard);
  const auto *first = static_cast<Event*>(from), *last = static_cast<Event*>(to);
  if (!first->has_times || !last->has_times || first->at < 0 || last->at < 0 || last->at > now) return 600;
  *ms = float((last->at - first->at) / 1e6);
  return 0;
}

EXPORT int cuStreamSynchronize(const void* stream) {
  const std::lock_guard lock(guard);
  now = std::max(now, free_at[stream]);
  return 0;
}

EXPORT int cuStreamBeginCapture_v2(const void* stream, int) {
  const std::lock_guard lock(guard);
  captures[stream] = new Graph;
  return 0;
}
EXPORT int cuStreamEndCapture(const void* stream, void** graph) {
  const std::lock_guard lock(guard);
  *graph = captures.at(stream);
  captures.erase(stream);
  return 0;
}
EXPORT int cuGraphCreate(void** graph, unsigned) { return *graph = new Graph, 0; }
EXPORT int cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
  return *executable = new Graph(*static_cast<Graph*>(graph)), 0;
}
EXPORT int cuGraphLaunch(void* executable, const void* stream) {
  if (!executable) return 400;
  const std::lock_guard lock(guard);
  const auto capture = captures.find(stream);
  for (const double ns : static_cast<Graph*>(executable)->work_ns) {
    capture == captures.end() ? run(stream, ns) : capture->second->work_ns.push_back(ns);
  }
  return 0;
}
EXPORT int cuGraphExecUpdate_v2(void* executable, void* graph, void*) {
  return *static_cast<Graph*>(executable) = *static_cast<Graph*>(graph), 0;
}
EXPORT int cuGraphClone(void** clone, void* graph) { return *clone = new Graph(*static_cast<Graph*>(graph)), 0; }
EXPORT int cuGraphAddChildGraphNode(void** node, void* graph, const void*, std::size_t, void* child) {
  auto& work = static_cast<Graph*>(graph)->work_ns;
  const auto& more = static_cast<Graph*>(child)->work_ns;
  work.insert(work.end(), more.begin(), more.end());
  return *node = child, 0;
}
EXPORT int cuGraphDestroy(void* graph) { return delete static_cast<Graph*>(graph), 0; }
EXPORT int cuGraphExecDestroy(void* executable) { return delete static_cast<Graph*>(executable), 0; }

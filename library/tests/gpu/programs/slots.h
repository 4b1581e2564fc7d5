// Calls of the programs: all-reduces with an input of their own, alone or in graphs, and what must come of them.
#pragma once

#include <vector>

#include "library/tests/gpu/programs/ranks.h"

namespace programs {

// A call with an input of its own. Its output is -1 everywhere until it is done.
struct Slot {
  Address in, out;
  int k;
  std::size_t elements;
};

inline Slot new_slot(Rank& r, int k, std::size_t elements) {
  const Slot slot{r.buffer(), r.buffer(), k, elements};
  const Stream own = r.stream();
  r.fill(slot.in, r.input(k), elements, own);
  r.fill(slot.out, -1, elements, own);
  r.wait(own);
  r.cuda.check(r.cuda.stream_destroy(own), "cuStreamDestroy");
  return slot;
}

inline void clear(Rank& r, const Slot& slot) {
  const Stream own = r.stream();
  r.fill(slot.out, -1, slot.elements, own);
  r.wait(own);
  r.cuda.check(r.cuda.stream_destroy(own), "cuStreamDestroy");
}

inline void call(Rank& r, ncclComm_t comm, const Slot& slot, Stream stream) {
  r.all_reduce(comm, slot.in, slot.out, slot.elements, stream);
}
inline void call(Rank& r, const Slot& slot, Stream stream) { call(r, r.comm(), slot, stream); }

inline void expect(Rank& r, const Slot& slot, const char* what) {
  r.expect(slot.out, r.sum(slot.k), slot.elements, what);
}

// Between groups of calls whose outputs a rank has looked at and cleared: no peer may still be at them.
inline void settle(Rank& r) { r.barrier(); }

inline void join(Rank& r, Stream waits, Stream for_this) {
  Event event = nullptr;
  r.cuda.check(r.cuda.event_create(&event, 2), "cuEventCreate");
  r.cuda.check(r.cuda.event_record(event, for_this), "cuEventRecord");
  r.cuda.check(r.cuda.stream_wait(waits, event, 0), "cuStreamWaitEvent");
  r.cuda.check(r.cuda.event_destroy(event), "cuEventDestroy");
}

struct Captured {
  Graph graph = nullptr;
  GraphExec exec = nullptr;
};

inline Captured end_capture(Rank& r, Stream stream) {
  Captured captured;
  r.cuda.check(r.cuda.end_capture(stream, &captured.graph), "cuStreamEndCapture");
  r.cuda.check(r.cuda.instantiate(&captured.exec, captured.graph, 0), "cuGraphInstantiate");
  return captured;
}

template <class Body>
Captured capture(Rank& r, Stream stream, Body body) {
  r.cuda.check(r.cuda.begin_capture(stream, capture_thread), "cuStreamBeginCapture");
  body();
  return end_capture(r, stream);
}

inline void launch(Rank& r, const Captured& captured, Stream stream) {
  r.cuda.check(r.cuda.graph_launch(captured.exec, stream), "cuGraphLaunch");
}

inline void destroy(Rank& r, const Captured& captured) {
  r.cuda.check(r.cuda.exec_destroy(captured.exec), "cuGraphExecDestroy");
  r.cuda.check(r.cuda.graph_destroy(captured.graph), "cuGraphDestroy");
}

inline void group_start(Rank& r) { r.nccl.check(r.nccl.group_start(), "ncclGroupStart"); }
inline void group_end(Rank& r) { r.nccl.check(r.nccl.group_end(), "ncclGroupEnd"); }

inline std::vector<Slot> slots_of(Rank& r, int first, int count) {
  std::vector<Slot> slots;
  for (int i = 0; i < count; ++i) slots.push_back(new_slot(r, first + i, sizes[std::size_t(first + i) % 4]));
  return slots;
}

inline Captured capture_calls(Rank& r, Stream stream, const std::vector<Slot>& slots) {
  r.comm();
  return capture(r, stream, [&] {
    for (const Slot& slot : slots) call(r, slot, stream);
  });
}

inline void check_and_clear(Rank& r, const std::vector<Slot>& slots, const char* what) {
  for (const Slot& slot : slots) expect(r, slot, what);
  for (const Slot& slot : slots) clear(r, slot);
}

// Work by `step` again and again, with ranks that come late now and then, checked every few times.
template <class Step>
void again_and_again(Rank& r, const std::vector<Stream>& streams, const std::vector<std::vector<Slot>>& all, Step step,
                     int rounds = 40) {
  for (int i = 0; i < rounds; ++i) {
    if ((i + r.rank * 3) % 7 == 0) r.spin(streams[std::size_t(i) % streams.size()], 1);
    step(i);
    if (i % 8 != 7) continue;
    for (const Stream stream : streams) r.wait(stream);
    settle(r);
    for (const auto& slots : all) check_and_clear(r, slots, "a call in a graph or beside it");
    settle(r);
  }
}

}  // namespace programs

// Cases of captures and graphs: a program's own captures beside calls, and graphs of calls beside eager ones.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "library/tests/gpu/programs/ranks.h"
#include "library/tests/gpu/programs/slots.h"

namespace programs {

// Captures of the program
// ---------------------------------------------------------------------------------------------------

enum class Action { init, destroy, window };

struct MemoryOfNccl {
  void* memory = nullptr;
  ncclWindow_t window = nullptr;
};

// The capture begins and ends on a thread of its own, and `act` runs between the two on this one.
inline void by_another_thread(Rank& r, const std::function<void()>& begin, const std::function<void()>& act,
                              const std::function<void()>& end) {
  std::atomic<int> step{0};
  std::string failure;
  std::thread helper([&] {
    try {
      r.use();
      begin();
      step = 1;
      while (step != 2 && !r.shared.broken) ::sched_yield();
      end();
    } catch (const std::exception& error) {
      failure = error.what();
      step = 1;
    }
  });
  while (step == 0) ::sched_yield();
  r.barrier();
  std::string failed_action;
  try {
    act();
  } catch (const std::exception& error) {
    failed_action = error.what();
  }
  if (failed_action.empty()) r.barrier();
  step = 2;
  helper.join();
  if (!failed_action.empty()) throw std::runtime_error(failed_action);
  if (!failure.empty()) throw std::runtime_error(failure);
}

inline void by_this_thread(Rank& r, const std::function<void()>& begin, const std::function<void()>& act,
                           const std::function<void()>& end) {
  begin();
  r.barrier();
  act();
  r.barrier();
  end();
}

// While this rank's thread, or another one of its process, captures a stream.
inline void beside_a_capture(Rank& r, int mode, bool other_thread, Action action) {
  const Stream capturing = r.stream();
  const Stream eager = r.stream();
  const Address memory = r.buffer();
  const Slot slot = new_slot(r, 3, 65536);
  MemoryOfNccl mine;
  ncclComm_t comm = nullptr;
  if (action != Action::init) {
    comm = r.new_comm();
    call(r, comm, slot, eager);
    r.wait(eager);
  }
  if (action == Action::window) {
    if (!r.nccl.mem_alloc || !r.nccl.window_register) throw Skip("this NCCL has no windows");
    r.nccl.check(r.nccl.mem_alloc(&mine.memory, 64 << 20), "ncclMemAlloc");
  }
  if (action == Action::init && r.rank == 0) r.nccl.check(r.nccl.get_unique_id(&r.shared.id), "ncclGetUniqueId");
  const auto act = [&] {
    if (action == Action::init) r.nccl.check(r.nccl.init_rank(&comm, r.ranks, r.shared.id, r.rank), "ncclCommInitRank");
    if (action == Action::destroy) r.nccl.check(r.nccl.destroy(comm), "ncclCommDestroy");
    if (action == Action::window) {
      r.nccl.check(r.nccl.window_register(comm, mine.memory, 64 << 20, &mine.window, NCCL_WIN_COLL_SYMMETRIC),
                   "ncclCommWindowRegister");
      if (mine.window) r.nccl.check(r.nccl.window_deregister(comm, mine.window), "ncclCommWindowDeregister");
    }
  };
  Graph graph = nullptr;
  const auto begin = [&] {
    r.cuda.check(r.cuda.begin_capture(capturing, mode), "cuStreamBeginCapture");
    r.fill(memory, 5, 256, capturing);
  };
  const auto end = [&] {
    r.fill(memory, 6, 128, capturing);
    r.cuda.check(r.cuda.end_capture(capturing, &graph), "cuStreamEndCapture of the program's capture");
  };
  r.barrier();
  (other_thread ? by_another_thread : by_this_thread)(r, begin, act, end);
  r.barrier();
  Captured captured{graph, nullptr};
  r.cuda.check(r.cuda.instantiate(&captured.exec, graph, 0), "cuGraphInstantiate");
  launch(r, captured, eager);
  r.wait(eager);
  r.expect(memory, 6, 128, "what the program has captured");
  destroy(r, captured);
  if (action == Action::destroy) return;
  clear(r, slot);
  settle(r);
  call(r, comm, slot, eager);
  r.wait(eager);
  expect(r, slot, "a call after the capture");
  r.nccl.check(r.nccl.destroy(comm), "ncclCommDestroy");
  if (mine.memory) r.nccl.check(r.nccl.mem_free(mine.memory), "ncclMemFree");
}

// Graphs
// ---------------------------------------------------------------------------------------------------

inline void graph_beside_eager(Rank& r) {
  const auto in_graph = slots_of(r, 0, 4);
  const auto eager = slots_of(r, 4, 2);
  const Stream one = r.stream();
  const Stream two = r.stream();
  const Captured graph = capture_calls(r, one, in_graph);
  again_and_again(r, {one, two}, {in_graph, eager}, [&](int) {
    launch(r, graph, one);
    for (const Slot& slot : eager) call(r, slot, two);
  });
  destroy(r, graph);
}

inline void two_graphs(Rank& r, bool captured_together) {
  const auto first = slots_of(r, 0, 3);
  const auto second = slots_of(r, 5, 3);
  const Stream one = r.stream();
  const Stream two = r.stream();
  Captured a;
  Captured b;
  if (captured_together) {
    r.comm();
    for (const Stream stream : {one, two})
      r.cuda.check(r.cuda.begin_capture(stream, capture_relaxed), "cuStreamBeginCapture");
    for (std::size_t i = 0; i < first.size(); ++i) {
      call(r, first[i], one);
      call(r, second[i], two);
    }
    a = end_capture(r, one);
    b = end_capture(r, two);
  } else {
    a = capture_calls(r, one, first);
    b = capture_calls(r, two, second);
  }
  again_and_again(r, {one, two}, {first, second}, [&](int) {
    launch(r, a, one);
    launch(r, b, two);
  });
  destroy(r, a);
  destroy(r, b);
}

inline void one_graph_on_many_streams(Rank& r) {
  const auto in_graph = slots_of(r, 0, 3);
  const auto eager = slots_of(r, 4, 1);
  const std::vector<Stream> streams{r.stream(), r.stream(), r.stream()};
  const Captured graph = capture_calls(r, streams[0], in_graph);
  again_and_again(r, streams, {in_graph, eager}, [&](int i) {
    launch(r, graph, streams[std::size_t(i) % 3]);
    call(r, eager[0], streams[std::size_t(i + 1) % 3]);
  });
  destroy(r, graph);
}

inline void graph_of_two_streams(Rank& r, bool grouped) {
  const auto in_graph = slots_of(r, 0, 4);
  const auto eager = slots_of(r, 5, 1);
  const Stream one = r.stream();
  const Stream two = r.stream();
  const Stream three = r.stream();
  r.comm();
  const Captured graph = capture(r, one, [&] {
    join(r, two, one);
    if (grouped) group_start(r);
    for (std::size_t i = 0; i < 4; ++i) call(r, in_graph[i], i % 2 == 0 ? one : two);
    if (grouped) group_end(r);
    join(r, one, two);
  });
  again_and_again(r, {one, three}, {in_graph, eager}, [&](int) {
    launch(r, graph, one);
    call(r, eager[0], three);
  });
  destroy(r, graph);
}

inline void graph_with_ncclReduce(Rank& r) {
  const auto in_graph = slots_of(r, 0, 2);
  const auto eager = slots_of(r, 3, 1);
  const Slot reduced = new_slot(r, 9, 65536);
  const Stream one = r.stream();
  const Stream two = r.stream();
  const auto reduce = [&](Stream on) {
    r.nccl.check(r.nccl.reduce(reinterpret_cast<void*>(reduced.in), reinterpret_cast<void*>(reduced.out),
                               reduced.elements, ncclFloat32, ncclSum, 0, r.comm(), on),
                 "ncclReduce");
  };
  reduce(one);
  r.wait(one);
  const Captured graph = capture(r, one, [&] {
    call(r, in_graph[0], one);
    reduce(one);
    call(r, in_graph[1], one);
  });
  again_and_again(r, {one, two}, {in_graph, eager}, [&](int i) {
    launch(r, graph, one);
    call(r, eager[0], two);
    if (i % 3 == 0) reduce(two);
  });
  if (r.rank == 0) expect(r, reduced, "a call that NCCL does, in a graph and beside it");
  destroy(r, graph);
}

enum class Before { eager, graph };

// The later one is small, and done only when the earlier one is.
inline void later_waits(Rank& r, Before earlier, Before later, bool destroys) {
  const Slot large = new_slot(r, 1, most_elements);
  const Slot small = new_slot(r, 2, 256);
  const Stream one = r.stream();
  const Stream two = r.stream();
  for (int i = 0; i < 5; ++i) {
    Captured a;
    Captured b;
    if (earlier == Before::graph) a = capture_calls(r, one, {large});
    if (later == Before::graph) b = capture_calls(r, two, {small});
    r.spin(one, 5);
    earlier == Before::graph ? launch(r, a, one) : call(r, large, one);
    if (destroys) destroy(r, a);
    later == Before::graph ? launch(r, b, two) : call(r, small, two);
    r.wait(two);
    expect(r, small, "the later one");
    expect(r, large, "the earlier one, when the later one is done");
    r.wait(one);
    if (a.exec && !destroys) destroy(r, a);
    if (b.exec) destroy(r, b);
    clear(r, large);
    clear(r, small);
    settle(r);
  }
}

inline void graph_is_updated(Rank& r) {
  if (!r.cuda.graph_update) throw Skip("this driver updates no graphs");
  const auto first = slots_of(r, 0, 2);
  const auto second = slots_of(r, 4, 2);
  const auto eager = slots_of(r, 3, 1);
  const Stream one = r.stream();
  const Stream two = r.stream();
  const Captured a = capture_calls(r, one, first);
  const Captured b = capture_calls(r, one, second);
  launch(r, a, one);
  call(r, eager[0], two);
  r.wait(two);
  r.wait(one);
  settle(r);
  check_and_clear(r, first, "a graph before its update");
  unsigned char info[128] = {};
  r.cuda.check(r.cuda.graph_update(a.exec, b.graph, info), "cuGraphExecUpdate");
  again_and_again(r, {one, two}, {second, eager}, [&](int) {
    launch(r, a, one);
    call(r, eager[0], two);
  });
  destroy(r, a);
  destroy(r, b);
}

// A question that a capture of this mode forbids breaks it. What the program calls then is refused, and its eager calls
// go on.
inline void broken_capture(Rank& r) {
  const Slot slot = slots_of(r, 0, 1).front();
  const Stream one = r.stream();
  call(r, slot, one);
  r.wait(one);
  expect(r, slot, "a call before the capture");
  clear(r, slot);
  settle(r);
  r.cuda.check(r.cuda.begin_capture(one, capture_thread), "cuStreamBeginCapture");
  if (r.cuda.stream_query(one) == cuda_success) throw Skip("this driver answers about a stream that is captured");
  if (r.nccl.all_reduce(reinterpret_cast<void*>(slot.in), reinterpret_cast<void*>(slot.out), slot.elements, ncclFloat32,
                        ncclSum, r.comm(), one) == ncclSuccess) {
    throw std::runtime_error("a call into a broken capture was taken");
  }
  Graph nothing = nullptr;
  r.cuda.end_capture(one, &nothing);
  for (int i = 0; i < 3; ++i) {
    call(r, slot, one);
    r.wait(one);
    expect(r, slot, "a call after a broken capture");
    clear(r, slot);
    settle(r);
  }
}

inline void graph_into_windows(Rank& r) {
  if (!r.nccl.mem_alloc || !r.nccl.window_register) throw Skip("this NCCL has no windows");
  constexpr std::size_t bytes = std::size_t{128} << 20;
  const std::size_t each = bytes / sizeof(float) / std::size_t(r.ranks) / 4;
  void* memory = nullptr;
  ncclWindow_t window = nullptr;
  r.nccl.check(r.nccl.mem_alloc(&memory, bytes), "ncclMemAlloc");
  r.nccl.check(r.nccl.window_register(r.comm(), memory, bytes, &window, NCCL_WIN_COLL_SYMMETRIC),
               "ncclCommWindowRegister");
  const auto eager = slots_of(r, 0, 2);
  const Slot source = new_slot(r, 4, std::min(each, most_elements));
  const Stream one = r.stream();
  const Stream two = r.stream();
  const auto gather = [&](Stream on) {
    r.nccl.check(
        r.nccl.all_gather(reinterpret_cast<void*>(source.in), memory, source.elements, ncclFloat32, r.comm(), on),
        "ncclAllGather");
  };
  const Captured graph = capture(r, one, [&] {
    gather(one);
    gather(one);
  });
  again_and_again(r, {one, two}, {eager}, [&](int) {
    launch(r, graph, one);
    for (const Slot& slot : eager) call(r, slot, two);
  });
  for (int rank = 0; rank < r.ranks; ++rank) {
    r.expect(Address(reinterpret_cast<std::uintptr_t>(memory)) + std::size_t(rank) * source.elements * sizeof(float),
             float((rank + 1) * (source.k + 1)), source.elements, "what a rank has gathered into its window");
  }
  destroy(r, graph);
  settle(r);
  if (window) r.nccl.check(r.nccl.window_deregister(r.comm(), window), "ncclCommWindowDeregister");
  r.nccl.check(r.nccl.mem_free(memory), "ncclMemFree");
}

}  // namespace programs

// What a program may do with streams, groups, captures and graphs of a communicator, each tried by threads and by
// processes on 2 and 4 GPUs. NCCL alone passes; busbw's GPU library in front of it must pass the same.
#include <cstdlib>
#include <memory>

#include "library/tests/gpu/programs/main.h"
#include "library/tests/gpu/programs/slots.h"

namespace programs {
namespace {

// Streams
// ---------------------------------------------------------------------------------------------------

void stream_handle_comes_again(Rank& r) {
  const Slot late = new_slot(r, 1, most_elements);
  const Slot next = new_slot(r, 2, 256);
  int again = 0;
  for (int i = 0; i < 20; ++i) {
    Stream first = r.stream();
    r.spin(first, 3);
    call(r, late, first);
    r.cuda.check(r.cuda.stream_destroy(first), "cuStreamDestroy");
    Stream second = r.stream();
    again += first == second;
    call(r, next, second);
    r.wait(second);
    expect(r, next, "the call on the new stream");
    expect(r, late, "the call before it, on the stream that is gone");
    r.cuda.check(r.cuda.stream_destroy(second), "cuStreamDestroy");
    clear(r, late);
    settle(r);
  }
  if (again == 0) throw Skip("no stream had the handle of a destroyed one");
}

void default_streams(Rank& r) {
  const auto special = [](std::uintptr_t number) { return reinterpret_cast<Stream>(number); };
  const std::vector<Stream> streams{special(0), special(1), special(2), r.stream(), r.stream(true)};
  std::vector<Slot> slots;
  for (int i = 0; i < 5; ++i) slots.push_back(new_slot(r, i, i % 2 ? 256 : 1 << 20));
  for (int round = 0; round < 10; ++round) {
    for (std::size_t i = 0; i < 5; ++i) {
      const Stream on = streams[(i * 2 + std::size_t(round)) % 5];
      if ((r.rank + round + int(i)) % 3 == 0) r.spin(on, 1);
      call(r, slots[i], on);
    }
    // The last call is done when all before it are.
    r.wait(streams[(8 + std::size_t(round)) % 5]);
    for (const Slot& slot : slots) expect(r, slot, "a call on a default stream or another one");
    for (const Slot& slot : slots) clear(r, slot);
    settle(r);
  }
}

void per_thread_stream_of_two_threads(Rank& r) {
  const auto per_thread = reinterpret_cast<Stream>(2);
  const Slot late = new_slot(r, 1, most_elements);
  const Slot next = new_slot(r, 2, 256);
  r.comm();
  r.spin(per_thread, 10);
  call(r, late, per_thread);
  std::string failure;
  std::thread([&] {
    try {
      r.use();
      call(r, next, per_thread);
      r.wait(per_thread);
      expect(r, next, "the call of the second thread");
      expect(r, late, "the call of the first thread");
    } catch (const std::exception& error) {
      failure = error.what();
    }
  }).join();
  if (!failure.empty()) throw std::runtime_error(failure);
}

// Groups
// ---------------------------------------------------------------------------------------------------

void simulate(Rank& r, bool nested) {
  if (!r.nccl.simulate_end) throw Skip("this NCCL has no ncclGroupSimulateEnd");
  const Slot simulated = new_slot(r, 1, 1 << 20);
  const Slot real = new_slot(r, 2, 1 << 20);
  const Stream on = r.stream();
  call(r, real, on);  // connects the ranks
  r.wait(on);
  clear(r, real);
  settle(r);
  group_start(r);
  if (nested) group_start(r);
  call(r, simulated, on);
  if (nested) group_end(r);
  SimulationInfo info;
  int version = 0;
  r.nccl.check(r.nccl.get_version(&version), "ncclGetVersion");
  info.version = unsigned(version);
  r.nccl.check(r.nccl.simulate_end(&info), "ncclGroupSimulateEnd");
  if (!(info.estimated_time >= 0)) throw std::runtime_error("the simulated group has no estimated time");
  call(r, real, on);
  r.wait(on);
  expect(r, real, "a call after the simulated group");
  r.expect(simulated.out, -1, simulated.elements, "a call that was only simulated");
  clear(r, real);
  settle(r);
  group_start(r);
  call(r, real, on);
  group_end(r);
  r.wait(on);
  expect(r, real, "a group after the simulated one");
  r.expect(simulated.out, -1, simulated.elements, "a call that was only simulated");
}

// Input of one call comes on the other's stream, and so do copies of the outputs.
void group_joins(Rank& r, bool captured, bool reduce) {
  const Slot a = new_slot(r, 1, 1 << 20);
  const Slot b = new_slot(r, 2, 65536);
  const Address copy_a = r.buffer();
  const Address copy_b = r.buffer();
  const Stream one = r.stream();
  const Stream two = r.stream();
  r.comm();
  const auto work = [&] {
    r.spin(one, 5);
    r.fill(b.in, r.input(7), b.elements, one);  // read by the call on the other stream
    group_start(r);
    call(r, a, one);
    if (reduce) {
      r.nccl.check(r.nccl.reduce(reinterpret_cast<void*>(b.in), reinterpret_cast<void*>(b.out), b.elements, ncclFloat32,
                                 ncclSum, 0, r.comm(), two),
                   "ncclReduce");
    } else {
      call(r, b, two);
    }
    group_end(r);
    r.cuda.check(r.cuda.copy(copy_a, a.out, a.elements * sizeof(float), two), "cuMemcpyDtoD");
    r.cuda.check(r.cuda.copy(copy_b, b.out, b.elements * sizeof(float), one), "cuMemcpyDtoD");
  };
  const int rounds = 5;
  Captured graph;
  if (captured) {
    graph = capture(r, one, [&] {
      join(r, two, one);
      work();
      join(r, one, two);
    });
  }
  for (int i = 0; i < rounds; ++i) {
    r.fill(b.in, 0, b.elements, two);
    r.wait(two);
    settle(r);
    captured ? launch(r, graph, one) : work();
    r.wait(one);
    r.wait(two);
    r.expect(copy_a, r.sum(a.k), a.elements, "the first stream's call as the second stream sees it after the group");
    if (!reduce || r.rank == 0)
      r.expect(copy_b, r.sum(7), b.elements, "the second stream's call, whose input came on the first");
    clear(r, a);
    clear(r, b);
    settle(r);
  }
  if (captured) destroy(r, graph);
}

void group_of_two_communicators_in_another_order(Rank& r) {
  const ncclComm_t x = r.new_comm();
  const ncclComm_t y = r.new_comm();
  const Slot a = new_slot(r, 1, 65536);
  const Slot b = new_slot(r, 2, 65536);
  const Stream on = r.stream();
  for (int i = 0; i < 10; ++i) {
    group_start(r);
    if (r.rank % 2 == 0) call(r, x, a, on);
    call(r, y, b, on);
    if (r.rank % 2 != 0) call(r, x, a, on);
    group_end(r);
    r.wait(on);
    expect(r, a, "the first communicator's call");
    expect(r, b, "the second communicator's call");
    clear(r, a);
    clear(r, b);
    settle(r);
  }
  r.nccl.check(r.nccl.destroy(x), "ncclCommDestroy");
  r.nccl.check(r.nccl.destroy(y), "ncclCommDestroy");
}

// One thread with all GPUs and two communicators.
void nested_groups_over_devices(Rank& r) {
  if (r.rank != 0) return;
  std::vector<std::unique_ptr<Rank>> all;
  for (int i = 0; i < r.ranks; ++i)
    all.push_back(std::make_unique<Rank>(r.cuda, r.nccl, r.shared, i, r.ranks, r.patience));
  std::vector<ncclComm_t> x(all.size());
  std::vector<ncclComm_t> y(all.size());
  r.nccl.check(r.nccl.init_all(x.data(), r.ranks, nullptr), "ncclCommInitAll");
  r.nccl.check(r.nccl.init_all(y.data(), r.ranks, nullptr), "ncclCommInitAll");
  std::vector<Slot> a;
  std::vector<Slot> b;
  std::vector<Stream> one;
  std::vector<Stream> two;
  for (const auto& rank : all) {
    rank->use();
    a.push_back(new_slot(*rank, 1, 1 << 20));
    b.push_back(new_slot(*rank, 2, 65536));
    one.push_back(rank->stream());
    two.push_back(rank->stream());
  }
  for (int round = 0; round < 5; ++round) {
    group_start(r);
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i]->use();
      group_start(r);
      // Both communicators on the same streams, called in another order on every other GPU.
      if (i % 2 == 0) call(*all[i], x[i], a[i], one[i]);
      call(*all[i], y[i], b[i], one[i]);
      if (i % 2 != 0) call(*all[i], x[i], a[i], one[i]);
      group_end(r);
    }
    group_end(r);
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i]->use();
      all[i]->wait(one[i]);
      expect(*all[i], a[i], "the first communicator's call");
      expect(*all[i], b[i], "the second communicator's call");
      clear(*all[i], a[i]);
      clear(*all[i], b[i]);
    }
  }
  group_start(r);
  for (std::size_t i = 0; i < all.size(); ++i) {
    r.nccl.check(r.nccl.destroy(x[i]), "ncclCommDestroy");
    r.nccl.check(r.nccl.destroy(y[i]), "ncclCommDestroy");
  }
  group_end(r);
  r.use();
}

// Captures of the program
// ---------------------------------------------------------------------------------------------------

enum class Action { init, destroy, window };

struct MemoryOfNccl {
  void* memory = nullptr;
  ncclWindow_t window = nullptr;
};

// While this rank's thread, or another one of its process, captures a stream.
void beside_a_capture(Rank& r, int mode, bool other_thread, Action action) {
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
  if (other_thread) {
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
  } else {
    begin();
    r.barrier();
    act();
    r.barrier();
    end();
  }
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

void graph_beside_eager(Rank& r) {
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

void two_graphs(Rank& r) {
  const auto first = slots_of(r, 0, 3);
  const auto second = slots_of(r, 5, 3);
  const Stream one = r.stream();
  const Stream two = r.stream();
  const Captured a = capture_calls(r, one, first);
  const Captured b = capture_calls(r, two, second);
  again_and_again(r, {one, two}, {first, second}, [&](int) {
    launch(r, a, one);
    launch(r, b, two);
  });
  destroy(r, a);
  destroy(r, b);
}

void one_graph_on_many_streams(Rank& r) {
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

void graph_of_two_streams(Rank& r, bool grouped) {
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

void graphs_captured_together(Rank& r) {
  const auto first = slots_of(r, 0, 2);
  const auto second = slots_of(r, 3, 2);
  const Stream one = r.stream();
  const Stream two = r.stream();
  r.comm();
  for (const Stream stream : {one, two})
    r.cuda.check(r.cuda.begin_capture(stream, capture_relaxed), "cuStreamBeginCapture");
  for (std::size_t i = 0; i < 2; ++i) {
    call(r, first[i], one);
    call(r, second[i], two);
  }
  const Captured a = end_capture(r, one);
  const Captured b = end_capture(r, two);
  again_and_again(r, {one, two}, {first, second}, [&](int) {
    launch(r, a, one);
    launch(r, b, two);
  });
  destroy(r, a);
  destroy(r, b);
}

void graph_with_ncclReduce(Rank& r) {
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
void later_waits(Rank& r, Before earlier, Before later, bool destroys) {
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

void graph_is_updated(Rank& r) {
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
void broken_capture(Rank& r) {
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

void graph_into_windows(Rank& r) {
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

// Anything, by a seed that all ranks share
// ---------------------------------------------------------------------------------------------------

class Random {
 public:
  Random(Rank& r, std::uint64_t seed) : r_(r), state_(seed * 0x9e3779b97f4a7c15U + 1) {}

  void run(int epochs) {
    for (int i = 0; i < 3; ++i) streams_.push_back(r_.stream());
    for (int i = 0; i < 8; ++i) slots_.push_back(new_slot(r_, i, sizes[below(4)]));
    for (int epoch = 0; epoch < epochs; ++epoch) {
      if (!comm_ || below(4) == 0) renew();
      for (int i = 0; i < 12; ++i) step();
      check();
    }
    forget_graphs();
    r_.nccl.check(r_.nccl.destroy(comm_), "ncclCommDestroy");
  }

 private:
  struct Kept {
    Captured captured;
    std::vector<std::size_t> slots;
  };

  std::uint64_t below(std::uint64_t limit) {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return (state_ >> 33) % limit;
  }
  std::size_t any_slot() { return std::size_t(below(slots_.size())); }
  Stream any_stream() { return streams_[std::size_t(below(streams_.size()))]; }

  void renew() {
    forget_graphs();
    if (comm_) r_.nccl.check(r_.nccl.destroy(comm_), "ncclCommDestroy");
    comm_ = r_.new_comm();
  }
  void forget_graphs() {
    for (const Kept& kept : graphs_) destroy(r_, kept.captured);
    graphs_.clear();
  }
  void use(std::size_t slot, Stream stream) {
    call(r_, comm_, slots_[slot], stream);
    used_.push_back(slot);
  }

  void step() {
    // Drawn by all alike, done by one of them: a rank that comes late.
    const std::uint64_t late = below(std::uint64_t(r_.ranks) * 4);
    const Stream stream = any_stream();
    if (late == std::uint64_t(r_.rank)) r_.spin(stream, 1);
    switch (below(8)) {
      case 0: {
        const std::size_t at = std::size_t(below(streams_.size()));
        r_.cuda.check(r_.cuda.stream_destroy(streams_[at]), "cuStreamDestroy");
        streams_[at] = r_.stream();
        return;
      }
      case 1: {
        group_start(r_);
        for (int i = 0; i < 3; ++i) {
          const std::size_t slot = any_slot();
          use(slot, any_stream());
        }
        group_end(r_);
        return;
      }
      case 2:
        if (graphs_.size() < 4) graphs_.push_back(new_graph());
        return;
      case 3:
      case 4: {
        if (graphs_.empty()) return;
        const Kept& kept = graphs_[std::size_t(below(graphs_.size()))];
        launch(r_, kept.captured, stream);
        used_.insert(used_.end(), kept.slots.begin(), kept.slots.end());
        return;
      }
      default:
        use(any_slot(), stream);
    }
  }

  Kept new_graph() {
    Kept kept;
    const Stream one = r_.stream();
    const Stream two = r_.stream();
    const bool both = below(2) == 0;
    const std::uint64_t calls = 1 + below(4);
    kept.captured = capture(r_, one, [&] {
      if (both) join(r_, two, one);
      for (std::uint64_t i = 0; i < calls; ++i) {
        const std::size_t slot = any_slot();
        call(r_, comm_, slots_[slot], both && i % 2 == 1 ? two : one);
        kept.slots.push_back(slot);
      }
      if (both) join(r_, one, two);
    });
    r_.cuda.check(r_.cuda.stream_destroy(one), "cuStreamDestroy");
    r_.cuda.check(r_.cuda.stream_destroy(two), "cuStreamDestroy");
    return kept;
  }

  void check() {
    // The last call is done when all are, also those of streams that are gone.
    const Stream last = r_.stream();
    use(0, last);
    r_.wait(last);
    r_.cuda.check(r_.cuda.stream_destroy(last), "cuStreamDestroy");
    for (const Stream stream : streams_) r_.wait(stream);
    settle(r_);
    for (const std::size_t slot : used_) expect(r_, slots_[slot], "a random call");
    for (const std::size_t slot : used_) clear(r_, slots_[slot]);
    used_.clear();
    settle(r_);
  }

  Rank& r_;
  std::uint64_t state_;
  ncclComm_t comm_ = nullptr;
  std::vector<Stream> streams_;
  std::vector<Slot> slots_;
  std::vector<Kept> graphs_;
  std::vector<std::size_t> used_;
};

std::vector<Case> all_cases(int random_epochs) {
  std::vector<Case> cases{
      {"stream-handle-comes-again", stream_handle_comes_again},
      {"default-streams", default_streams},
      {"per-thread-stream-of-two-threads", per_thread_stream_of_two_threads},
      {"simulated-group", [](Rank& r) { simulate(r, false); }},
      {"simulated-group-nested", [](Rank& r) { simulate(r, true); }},
      {"group-joins-streams", [](Rank& r) { group_joins(r, false, false); }},
      {"group-joins-streams-of-nccl", [](Rank& r) { group_joins(r, false, true); }},
      {"group-joins-streams-in-a-graph", [](Rank& r) { group_joins(r, true, false); }},
      {"group-joins-streams-of-nccl-in-a-graph", [](Rank& r) { group_joins(r, true, true); }},
      {"group-of-two-communicators-in-another-order", group_of_two_communicators_in_another_order},
      {"nested-groups-over-devices", nested_groups_over_devices},
      {"graph-beside-eager", graph_beside_eager},
      {"two-graphs", two_graphs},
      {"one-graph-on-many-streams", one_graph_on_many_streams},
      {"graph-of-two-streams", [](Rank& r) { graph_of_two_streams(r, false); }},
      {"graph-of-a-group", [](Rank& r) { graph_of_two_streams(r, true); }},
      {"graphs-captured-together", graphs_captured_together},
      {"graph-with-ncclReduce", graph_with_ncclReduce},
      {"eager-waits-for-graph", [](Rank& r) { later_waits(r, Before::graph, Before::eager, false); }},
      {"graph-waits-for-eager", [](Rank& r) { later_waits(r, Before::eager, Before::graph, false); }},
      {"graph-waits-for-graph", [](Rank& r) { later_waits(r, Before::graph, Before::graph, false); }},
      {"eager-waits-for-graph-that-is-gone", [](Rank& r) { later_waits(r, Before::graph, Before::eager, true); }},
      {"graph-is-updated", graph_is_updated},
      {"broken-capture", broken_capture},
      {"graph-into-windows", graph_into_windows},
  };
  static const char* const names[] = {
      "init-in-global-capture",          "init-in-own-capture",           "init-in-relaxed-capture",
      "destroy-in-global-capture",       "destroy-in-own-capture",        "destroy-in-relaxed-capture",
      "window-in-global-capture",        "window-in-own-capture",         "window-in-relaxed-capture",
      "init-beside-a-global-capture",    "init-beside-an-own-capture",    "init-beside-a-relaxed-capture",
      "destroy-beside-a-global-capture", "destroy-beside-an-own-capture", "destroy-beside-a-relaxed-capture",
      "window-beside-a-global-capture",  "window-beside-an-own-capture",  "window-beside-a-relaxed-capture",
  };
  for (int i = 0; i < 18; ++i) {
    cases.push_back({names[i], [=](Rank& r) { beside_a_capture(r, i % 3, i >= 9, Action(i / 3 % 3)); }});
  }
  static const char* const random[] = {"random-1", "random-2", "random-3", "random-4"};
  for (int seed = 0; seed < 4; ++seed)
    cases.push_back({random[seed], [=](Rank& r) { Random(r, std::uint64_t(seed) + 1).run(random_epochs); }});
  return cases;
}

}  // namespace
}  // namespace programs

int main(int argc, char** argv) { return programs::main_of(argc, argv, programs::all_cases); }

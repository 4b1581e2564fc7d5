// Cases of streams and groups: which calls a stream's next one waits for, and what a group joins.
#pragma once

#include <memory>

#include "library/tests/gpu/programs/ranks.h"
#include "library/tests/gpu/programs/slots.h"

namespace programs {

// Streams
// ---------------------------------------------------------------------------------------------------

inline void stream_handle_comes_again(Rank& r) {
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

inline void default_streams(Rank& r) {
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

inline void per_thread_stream_of_two_threads(Rank& r) {
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

inline void simulate(Rank& r, bool nested) {
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
inline void group_joins(Rank& r, bool captured, bool reduce) {
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

inline void group_of_two_communicators_in_another_order(Rank& r) {
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
inline void nested_groups_over_devices(Rank& r) {
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

}  // namespace programs

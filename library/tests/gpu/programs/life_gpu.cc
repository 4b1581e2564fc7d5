// What a program may do over its life besides calling NCCL: threads that share a communicator, operators that come and
// go, calls that are refused, ranks that end before the others. NCCL alone passes; busbw's GPU library must as well.
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "library/tests/gpu/programs/ends_of_ranks.h"
#include "library/tests/gpu/programs/main.h"
#include "library/tests/gpu/programs/slots.h"

namespace programs {
namespace {

// Threads
// ---------------------------------------------------------------------------------------------------

// By turns, each on a stream of its own; which of them comes next is the same on all ranks.
void threads_share_a_communicator(Rank& r) {
  constexpr int threads = 3;
  const auto slots = slots_of(r, 0, threads);
  std::vector<Stream> streams;
  for (int i = 0; i < threads; ++i) streams.push_back(r.stream());
  r.comm();
  for (int round = 0; round < 10; ++round) {
    std::atomic<int> turn{0};
    std::mutex guard;
    std::string failure;
    std::vector<std::thread> all;
    for (int t = 0; t < threads; ++t) {
      all.emplace_back([&, t] {
        try {
          r.use();
          while (turn != t && !r.shared.broken) ::sched_yield();
          const std::lock_guard lock(guard);
          if ((r.rank + round) % 3 == 0) r.spin(streams[std::size_t(t)], 1);
          call(r, slots[std::size_t(t)], streams[std::size_t(t)]);
          ++turn;
        } catch (const std::exception& error) {
          failure = error.what();
          turn = threads;
        }
      });
    }
    for (std::thread& thread : all) thread.join();
    if (!failure.empty()) throw std::runtime_error(failure);
    r.wait(streams.back());
    check_and_clear(r, slots, "a call by one of three threads");
    settle(r);
  }
}

// One thread's open group is not another's.
void group_of_another_thread(Rank& r) {
  const auto slots = slots_of(r, 0, 2);
  const Stream one = r.stream();
  const Stream two = r.stream();
  const ncclComm_t other = r.new_comm();
  r.comm();
  for (int round = 0; round < 10; ++round) {
    group_start(r);
    call(r, slots[0], one);
    std::string failure;
    std::thread([&] {
      try {
        r.use();
        group_start(r);
        call(r, other, slots[1], two);
        group_end(r);
        r.wait(two, "a call of another thread, while a group is open");
      } catch (const std::exception& error) {
        failure = error.what();
      }
    }).join();
    if (!failure.empty()) throw std::runtime_error(failure);
    group_end(r);
    r.wait(one);
    check_and_clear(r, slots, "a group beside one of another thread");
    settle(r);
  }
  r.nccl.check(r.nccl.destroy(other), "ncclCommDestroy");
}

void errors_asked_by_another_thread(Rank& r) {
  const auto slots = slots_of(r, 0, 3);
  const Stream one = r.stream();
  const ncclComm_t comm = r.comm();
  std::atomic<bool> over{false};
  std::string failure;
  std::thread watchdog([&] {
    try {
      while (!over) expect_no_error(r, comm, "the error of a communicator in use");
    } catch (const std::exception& error) {
      failure = error.what();
    }
  });
  for (int i = 0; i < 50; ++i) {
    for (const Slot& slot : slots) call(r, slot, one);
    if (i % 10 == 9) r.wait(one);
  }
  r.wait(one);
  over = true;
  watchdog.join();
  if (!failure.empty()) throw std::runtime_error(failure);
  check_and_clear(r, slots, "a call while another thread asks for errors");
}

// Calls
// ---------------------------------------------------------------------------------------------------

// The thread works on another rank's GPU when it calls, as a program may that has its devices in a loop.
void another_device_is_current(Rank& r) {
  const auto slots = slots_of(r, 0, 4);
  const Stream one = r.stream();
  r.comm();
  Rank elsewhere(r.cuda, r.nccl, r.shared, (r.rank + 1) % r.ranks, r.ranks, r.patience);
  for (int round = 0; round < 10; ++round) {
    elsewhere.use();
    group_start(r);
    for (std::size_t i = 0; i < 2; ++i) call(r, slots[i], one);
    group_end(r);
    for (std::size_t i = 2; i < 4; ++i) call(r, slots[i], one);
    r.use();
    r.wait(one);
    check_and_clear(r, slots, "a call while another GPU is the current one");
    settle(r);
  }
}

void empty_calls(Rank& r) {
  const auto slots = slots_of(r, 0, 2);
  const Stream one = r.stream();
  const Stream two = r.stream();
  for (int round = 0; round < 10; ++round) {
    r.all_reduce(r.comm(), slots[0].in, slots[0].out, 0, one);
    r.nccl.check(r.nccl.all_reduce(nullptr, nullptr, 0, ncclFloat32, ncclSum, r.comm(), two), "ncclAllReduce of none");
    call(r, slots[0], one);
    group_start(r);
    r.all_reduce(r.comm(), slots[1].in, slots[1].out, 0, two);
    call(r, slots[1], one);
    r.nccl.check(r.nccl.broadcast(nullptr, nullptr, 0, ncclFloat32, 0, r.comm(), one), "ncclBroadcast of none");
    group_end(r);
    group_start(r);
    group_end(r);
    r.wait(one);
    check_and_clear(r, slots, "a call beside empty ones");
    settle(r);
  }
}

// An operator whose factor lies on the GPU, changed and destroyed as soon as NCCL allows it.
void operators_come_and_go(Rank& r) {
  if (!r.nccl.new_product_op || !r.nccl.destroy_op) throw Skip("this NCCL has no ncclRedOpCreatePreMulSum");
  const auto slots = slots_of(r, 0, 2);
  const Slot product = new_slot(r, 5, 65536);
  const Address factor = r.buffer();
  const Stream one = r.stream();
  for (int round = 0; round < 10; ++round) {
    r.fill(factor, float(round + 1), 1, one);
    call(r, slots[0], one);
    ncclRedOp_t op = ncclSum;
    r.nccl.check(r.nccl.new_product_op(&op, memory_at(factor), ncclFloat32, 0, r.comm()), "ncclRedOpCreatePreMulSum");
    r.nccl.check(r.nccl.all_reduce(memory_at(product.in), memory_at(product.out), product.elements, ncclFloat32, op,
                                   r.comm(), one),
                 "ncclAllReduce with an operator");
    r.nccl.check(r.nccl.destroy_op(op, r.comm()), "ncclRedOpDestroy");
    r.fill(factor, -7, 1, one);
    call(r, slots[1], one);
    r.wait(one);
    r.expect(product.out, r.sum(product.k) * float(round + 1), product.elements, "a sum of products");
    clear(r, product);
    check_and_clear(r, slots, "a call around one with an operator");
    settle(r);
  }
}

// What NCCL refuses in a group leaves the communicator as it was.
void refused_in_a_group(Rank& r) {
  const auto slots = slots_of(r, 0, 2);
  const Stream one = r.stream();
  call(r, slots[0], one);
  r.wait(one);
  clear(r, slots[0]);
  settle(r);
  for (int round = 0; round < 3; ++round) {
    group_start(r);
    call(r, slots[0], one);
    const ncclResult_t refused = r.nccl.all_reduce(memory_at(slots[1].in), memory_at(slots[1].out), 16,
                                                   ncclDataType_t(99), ncclSum, r.comm(), one);
    if (r.nccl.group_end() == ncclSuccess || refused == ncclSuccess)
      throw std::runtime_error("a group with a type that is none was taken");
    r.wait(one);
    clear(r, slots[0]);
    settle(r);
    for (const Slot& slot : slots) call(r, slot, one);
    r.wait(one);
    check_and_clear(r, slots, "a call after a group that was refused");
    settle(r);
  }
}

// Communicators
// ---------------------------------------------------------------------------------------------------

// By one thread, over some of the GPUs, in another order than theirs.
void init_all_over_some(Rank& r) {
  if (r.rank != 0) return;
  std::vector<int> list;
  for (int i = r.ranks - 1; i >= 0; --i) list.push_back(i);
  for (int count = 1; count <= r.ranks; ++count) {
    std::vector<ncclComm_t> comms(static_cast<std::size_t>(count));
    r.nccl.check(r.nccl.init_all(comms.data(), count, list.data()), "ncclCommInitAll");
    std::vector<std::unique_ptr<Rank>> all;
    std::vector<Slot> slots;
    std::vector<Stream> streams;
    for (int i = 0; i < count; ++i) {
      all.push_back(std::make_unique<Rank>(r.cuda, r.nccl, r.shared, list[std::size_t(i)], r.ranks, r.patience));
      slots.push_back(new_slot(*all.back(), 1, 65536));
      streams.push_back(all.back()->stream());
    }
    group_start(r);
    for (std::size_t i = 0; i < comms.size(); ++i) call(*all[i], comms[i], slots[i], streams[i]);
    group_end(r);
    float sum = 0;
    for (const auto& one : all) sum += one->input(1);
    for (std::size_t i = 0; i < comms.size(); ++i) {
      all[i]->use();
      all[i]->wait(streams[i]);
      all[i]->expect(slots[i].out, sum, slots[i].elements, "a call over some of the GPUs");
    }
    group_start(r);
    for (const ncclComm_t comm : comms) r.nccl.check(r.nccl.destroy(comm), "ncclCommDestroy");
    group_end(r);
  }
  r.use();
}

void two_ranks_of_one_gpu(Rank& r) {
  if (r.rank != 0) return;
  const int twice[] = {0, 0};
  ncclComm_t comms[2] = {};
  const ncclResult_t result = r.nccl.init_all(comms, 2, twice);
  if (result != ncclSuccess) return;
  for (const ncclComm_t comm : comms) r.nccl.check(r.nccl.destroy(comm), "ncclCommDestroy");
  r.use();
}

// Some ranks finalize, some do not; they end two communicators in different orders.
void ends_in_another_order(Rank& r) {
  if (!r.nccl.finalize) throw Skip("this NCCL has no ncclCommFinalize");
  for (int round = 0; round < 3; ++round) {
    ncclComm_t comms[] = {r.new_comm(), r.new_comm()};
    const auto slots = slots_of(r, 0, 2);
    const Stream one = r.stream();
    for (int i = 0; i < 2; ++i) call(r, comms[i], slots[std::size_t(i)], one);
    r.wait(one);
    check_and_clear(r, slots, "a call before the end");
    for (const ncclComm_t comm : comms) r.nccl.check(r.nccl.finalize(comm), "ncclCommFinalize");
    if (r.rank % 2 == 1) std::swap(comms[0], comms[1]);
    for (const ncclComm_t comm : comms) r.nccl.check(r.nccl.destroy(comm), "ncclCommDestroy");
    r.begin_case();
  }
}

// Calls, a suspension, calls again; memory that nobody needs meanwhile is NCCL's matter and ours.
void suspended_and_resumed(Rank& r) {
  if (!r.nccl.suspend || !r.nccl.resume) throw Skip("this NCCL has no ncclCommSuspend");
  const ncclComm_t comm = r.new_comm();
  const auto slots = slots_of(r, 0, 4);
  const Stream one = r.stream();
  for (int round = 0; round < 3; ++round) {
    for (const Slot& slot : slots) call(r, comm, slot, one);
    r.wait(one);
    check_and_clear(r, slots, "a call around a suspension");
    settle(r);
    if (r.nccl.suspend(comm, 1) != ncclSuccess) throw Skip("this NCCL suspends nothing here");
    settle(r);
    r.nccl.check(r.nccl.resume(comm), "ncclCommResume");
    settle(r);
  }
  for (const Slot& slot : slots) call(r, comm, slot, one);
  r.wait(one);
  check_and_clear(r, slots, "a call after a suspension");
  r.nccl.check(r.nccl.destroy(comm), "ncclCommDestroy");
}

std::vector<Case> all_cases(int) {
  return {
      {"threads-share-a-communicator", threads_share_a_communicator},
      {"group-of-another-thread", group_of_another_thread},
      {"errors-asked-by-another-thread", errors_asked_by_another_thread},
      {"another-device-is-current", another_device_is_current},
      {"empty-calls", empty_calls},
      {"operators-come-and-go", operators_come_and_go},
      {"refused-in-a-group", refused_in_a_group},
      {"init-all-over-some", init_all_over_some},
      {"two-ranks-of-one-gpu", two_ranks_of_one_gpu},
      {"ends-in-another-order", ends_in_another_order},
      {"suspended-and-resumed", suspended_and_resumed},
      {"fork-beside-calls", fork_beside_calls},
      {"one-exits-early", [](Rank& r) { one_goes_early(r, Leave::exit, false); }},
      {"one-ends-early-without-exit", [](Rank& r) { one_goes_early(r, Leave::quick_exit, false); }},
      {"one-aborts-early", [](Rank& r) { one_goes_early(r, Leave::abort, false); }},
      {"late-broadcast-of-one-that-exits", [](Rank& r) { one_goes_early(r, Leave::exit, true); }},
      {"all-exit-in-flight", all_exit_in_flight},
  };
}

}  // namespace
}  // namespace programs

int main(int argc, char** argv) { return programs::main_of(argc, argv, programs::all_cases); }

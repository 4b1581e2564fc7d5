// Cases of ends: a rank that goes before the others, all that go with calls on the way, a child of one.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "library/tests/gpu/programs/ranks.h"
#include "library/tests/gpu/programs/slots.h"

namespace programs {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

inline void* memory_at(Address address) { return reinterpret_cast<void*>(address); }

inline void expect_no_error(Rank& r, ncclComm_t comm, const char* when) {
  ncclResult_t state = ncclSuccess;
  r.nccl.check(r.nccl.async_error(comm, &state), "ncclCommGetAsyncError");
  r.nccl.check(state, when);
}

enum class Leave { exit, quick_exit, abort };

// The last rank has done all its calls and goes. The others still have work in their stream, ask for errors as a
// watchdog does, and abort at the end; with `late`, they take a broadcast whose root is gone by then.
inline void one_goes_early(Rank& r, Leave how, bool late) {
  if (!r.own_process && how != Leave::abort) throw Skip("of processes only");
  const ncclComm_t comm = r.new_comm();
  const int leaver = r.ranks - 1;
  const auto slots = slots_of(r, 0, 3);
  const Slot last = new_slot(r, 7, 256);
  const Stream one = r.stream();
  const auto broadcast = [&] {
    r.nccl.check(
        r.nccl.broadcast(memory_at(last.in), memory_at(last.out), last.elements, ncclFloat32, leaver, comm, one),
        "ncclBroadcast");
  };
  broadcast();  // connects the ranks
  for (const Slot& slot : slots) call(r, comm, slot, one);
  r.wait(one);
  clear(r, last);
  settle(r);
  if (r.rank == leaver) {
    if (late) broadcast();
    r.wait(one);
    check_and_clear(r, slots, "a call of a rank that goes early");
    if (how == Leave::abort) r.nccl.check(r.nccl.abort(comm), "ncclCommAbort");
    if (!r.own_process) return;
    r.shared.left = 1;
    if (how == Leave::quick_exit) ::_exit(0);
    std::exit(0);
  }
  r.spin(one, 1000);
  const auto patience = Clock::now() + milliseconds(1500);
  while (Clock::now() < patience) {
    expect_no_error(r, comm, "the error of a communicator of which a rank has ended");
    ::usleep(1000);
  }
  if (late) broadcast();
  r.wait(one);
  if (late) r.expect(last.out, float(r.ranks * (last.k + 1)), last.elements, "a broadcast whose root has ended");
  check_and_clear(r, slots, "a call before a rank has ended");
  expect_no_error(r, comm, "the error of a communicator of which a rank has ended, after its calls");
  // NCCL's own ncclCommDestroy may wait for the rank that is gone.
  r.nccl.check(r.nccl.abort(comm), "ncclCommAbort");
  while (r.own_process && r.shared.left == 0 && !r.shared.broken) ::sched_yield();
}

// All ranks end while their calls are on the way.
inline void all_exit_in_flight(Rank& r) {
  if (!r.own_process) throw Skip("of processes only");
  const auto slots = slots_of(r, 0, 4);
  const Stream one = r.stream();
  r.comm();
  r.barrier();
  if (r.rank == r.ranks - 1) {
    r.shared.left = 1;
  } else {
    while (r.shared.left == 0) ::sched_yield();
  }
  for (const Slot& slot : slots) call(r, slot, one);
  if (r.rank == r.ranks - 1) std::exit(0);
}

// A child that does nothing with the GPU, and ends with all that runs at an exit.
inline void fork_beside_calls(Rank& r) {
  const auto slots = slots_of(r, 0, 3);
  const Stream one = r.stream();
  r.comm();
  for (int round = 0; round < 5; ++round) {
    for (const Slot& slot : slots) call(r, slot, one);
    const pid_t child = ::fork();
    if (child == 0) ::_exit(0);
    for (const Slot& slot : slots) call(r, slot, one);
    int status = 0;
    ::waitpid(child, &status, 0);
    r.wait(one);
    check_and_clear(r, slots, "a call around a fork");
    settle(r);
  }
}

}  // namespace programs

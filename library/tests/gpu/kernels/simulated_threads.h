// What a simulated machine is inside: fibers for threads, and stores that have not arrived.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <cstring>
#include <deque>
#include <random>

#include "library/gpu/kernels/machine.h"
#include "library/tests/gpu/kernels/simulator.h"

namespace busbw::gpu::test {

constexpr std::size_t stack_bytes = 64 << 10;

struct Block;

struct Fiber {
  Block* block = nullptr;
  int thread = 0;
  bool started = false;
  bool done = false;
  int barrier = -1;       // that it waits at, or -1
  unsigned expected = 0;  // threads that this barrier is for
  bool vote = false;      // that it brought to the barrier
  float part = 0;         // of a sum that it brought
  float sum = 0;          // of all parts at its last barrier
  bool any = false;       // of the votes at its last barrier
  bool slow = false;
  // Stores of each thread of the block, this one too, that a fence of this thread covers.
  std::uint64_t stores = 0;
  std::vector<std::uint64_t> known;
  ucontext_t context{};
  jmp_buf resume{};
  std::unique_ptr<char[]> stack = std::make_unique<char[]>(stack_bytes);
};

// A part of a store that has not arrived.
struct Flight {
  unsigned char* to = nullptr;
  std::uint64_t value = 0;
  int bytes = 0;
  int thread = 0;
  std::uint64_t number = 0;  // of this thread's stores
  bool late = false;         // takes very long
};

struct Running;

struct Block {
  Running* kernel = nullptr;
  int index = 0;
  std::vector<Fiber> fibers;
  std::vector<Flight> flights;
  bool still = false;
};

struct Running {
  Launch launch;
  int rank = 0;
  std::vector<Block> blocks;
  int left = 0;  // fibers that have not ended
};

inline void deliver(const Flight& flight) {
  std::memcpy(flight.to, &flight.value, static_cast<std::size_t>(flight.bytes));
}

struct Machine::Inside {
  Layout layout;
  std::mt19937 random;
  std::vector<std::vector<unsigned char>> scratch_memory;
  std::vector<unsigned char*> scratch;
  std::vector<std::vector<ChannelState>> states;
  std::uint32_t abort = 0;
  std::vector<std::deque<Launch>> queues;
  std::vector<std::unique_ptr<Running>> running;
  std::vector<std::vector<Flight>> left_behind;  // of kernels that have ended, per rank
  std::vector<std::unique_ptr<Running>> spare;

  Fiber* current = nullptr;
  jmp_buf scheduler{};
  std::uint64_t idle = 0;  // resumptions since something happened
  std::uint64_t change_in = 0;

  std::uint32_t below(std::size_t limit) { return random() % static_cast<std::uint32_t>(limit); }
  bool chance(int percent) { return below(100) < static_cast<std::uint32_t>(percent); }

  void start(int rank);
  bool step();
  void resume(Fiber& fiber);
  void yield();
  void pass_barrier(Block& block, int barrier);
  void end_fiber(Fiber& fiber);
  void deliver_some();
  bool deliver_from(std::vector<Flight>& flights);
  void deliver_all();
  bool in_own_scratch(const Flight& flight, int rank) const;
  void fly(void* to, std::uint64_t value, int bytes);
  std::string waiting() const;
};

// The machine whose fibers run; tests have one at a time.
inline Machine::Inside* machine = nullptr;

}  // namespace busbw::gpu::test

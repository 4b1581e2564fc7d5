// Fibers are made with makecontext and switched with _setjmp and _longjmp, which make no system call.
#include "library/tests/gpu/kernels/simulator.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "library/gpu/kernels/sentinel.h"
#include "library/tests/gpu/kernels/simulated_threads.h"

namespace busbw::gpu::test {

Machine::Machine(const Layout& layout, std::uint32_t seed) : inside_(std::make_unique<Inside>()) {
  Inside& m = *inside_;
  m.layout = layout;
  m.random.seed(seed);
  const auto ranks = static_cast<std::size_t>(layout.ranks);
  m.queues.resize(ranks);
  m.running.resize(ranks);
  m.left_behind.resize(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::vector<unsigned char>& memory = m.scratch_memory.emplace_back(layout.bytes + 256);
    const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(memory.data());
    m.scratch.push_back(memory.data() + (256 - address % 256));
    for (std::uint64_t at = layout.sentinel_start; at < layout.simple_start; at += 4)
      std::memcpy(m.scratch.back() + at, &sentinel, 4);
    m.states.emplace_back(static_cast<std::size_t>(layout.channels), ChannelState{});
  }
}

Machine::~Machine() = default;

void Machine::launch(int rank, const Launch& launch) {
  Inside& m = *inside_;
  Launch whole = launch;
  KernelArguments& a = whole.arguments;
  a.rank = rank;
  a.ranks = m.layout.ranks;
  a.state = m.states[static_cast<std::size_t>(rank)].data();
  a.abort = &m.abort;
  for (int peer = 0; peer < m.layout.ranks; ++peer) a.scratch[peer] = m.scratch[static_cast<std::size_t>(peer)];
  a.layout = m.layout;
  m.queues[static_cast<std::size_t>(rank)].push_back(whole);
}

void Machine::set_abort() { inside_->abort = 1; }

unsigned char* Machine::scratch(int rank) { return inside_->scratch[static_cast<std::size_t>(rank)]; }

ChannelState& Machine::state(int rank, int channel) {
  return inside_->states[static_cast<std::size_t>(rank)][static_cast<std::size_t>(channel)];
}

void Machine::run() {
  machine = inside_.get();
  while (inside_->step()) {
  }
  inside_->deliver_all();
}

// Starts kernels, lets stores arrive and threads run. False when all is done.
bool Machine::Inside::step() {
  std::vector<Block*> blocks;
  for (int rank = 0; rank < layout.ranks; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    if (!running[at] && !queues[at].empty() && chance(20)) start(rank);
    if (running[at])
      for (Block& block : running[at]->blocks) blocks.push_back(&block);
  }
  if (blocks.empty()) return std::any_of(queues.begin(), queues.end(), [](const auto& q) { return !q.empty(); });
  if (change_in-- == 0) {
    change_in = below(300);
    for (Block* block : blocks) {
      block->still = chance(40);
      for (Fiber& fiber : block->fibers) fiber.slow = chance(10);
    }
  }
  deliver_some();
  Block& block = *blocks[below(blocks.size())];
  if (block.still && !chance(3)) return true;
  // Several threads of a block in a row: as fast as one that nothing holds up.
  for (std::uint32_t i = 0, runs = 1 + below(4 * block.fibers.size()); i < runs; ++i) {
    Fiber& fiber = block.fibers[below(block.fibers.size())];
    if (fiber.done || fiber.barrier >= 0 || (fiber.slow && !chance(5))) continue;
    Running& kernel = *block.kernel;
    resume(fiber);
    if (kernel.left > 0) continue;
    // The kernel has ended: what it stored at home has arrived, the rest may still be on its way.
    const auto rank = static_cast<std::size_t>(kernel.rank);
    for (Block& each : kernel.blocks)
      for (const Flight& flight : each.flights) {
        if (in_own_scratch(flight, kernel.rank)) {
          deliver(flight);
        } else {
          left_behind[rank].push_back(flight);
        }
      }
    spare.push_back(std::move(running[rank]));
    return true;
  }
  if (idle > 20'000) deliver_all();
  if (idle > 2'000'000) throw std::runtime_error("nothing can go on: " + waiting());
  return true;
}

void Machine::Inside::start(int rank) {
  const auto at = static_cast<std::size_t>(rank);
  const Launch launch = queues[at].front();
  queues[at].pop_front();
  const auto fits = [&](const std::unique_ptr<Running>& old) {
    return static_cast<int>(old->blocks.size()) == launch.channels &&
           static_cast<int>(old->blocks[0].fibers.size()) == launch.threads;
  };
  const auto found = std::find_if(spare.begin(), spare.end(), fits);
  if (found != spare.end()) {
    running[at] = std::move(*found);
    spare.erase(found);
  } else {
    running[at] = std::make_unique<Running>();
    running[at]->blocks.resize(static_cast<std::size_t>(launch.channels));
    for (Block& block : running[at]->blocks) block.fibers.resize(static_cast<std::size_t>(launch.threads));
  }
  Running& kernel = *running[at];
  kernel.launch = launch;
  kernel.rank = rank;
  kernel.left = launch.channels * launch.threads;
  int index = 0;
  for (Block& block : kernel.blocks) {
    block.kernel = &kernel;
    block.index = index++;
    block.flights.clear();
    block.still = false;
    int thread = 0;
    for (Fiber& fiber : block.fibers) {
      fiber.block = &block;
      fiber.thread = thread++;
      fiber.started = fiber.done = false;
      fiber.barrier = -1;
      fiber.stores = 0;
      fiber.known.assign(block.fibers.size(), 0);
    }
  }
  idle = 0;
}

namespace {

void fiber_body() {
  Fiber& fiber = *machine->current;
  fiber.block->kernel->launch.kernel(fiber.block->kernel->launch.arguments);
  machine->end_fiber(fiber);
}

}  // namespace

void Machine::Inside::resume(Fiber& fiber) {
  ++idle;
  current = &fiber;
  if (_setjmp(scheduler) == 0) {
    if (fiber.started) _longjmp(fiber.resume, 1);
    fiber.started = true;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = stack_bytes;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, fiber_body, 0);
    setcontext(&fiber.context);
  }
  current = nullptr;
}

void Machine::Inside::yield() {
  if (_setjmp(current->resume) == 0) _longjmp(scheduler, 1);
}

void Machine::Inside::end_fiber(Fiber& fiber) {
  fiber.done = true;
  --fiber.block->kernel->left;
  idle = 0;
  pass_barrier(*fiber.block, 0);
  _longjmp(scheduler, 1);
}

// Lets the threads go on if all that the barrier is for have come: all that have not ended at barrier 0, so many as
// they say themselves at another. From then on each of them knows of what any of them had stored, or knew of.
void Machine::Inside::pass_barrier(Block& block, int barrier) {
  std::vector<Fiber*> here;
  for (Fiber& fiber : block.fibers) {
    if (fiber.barrier == barrier) here.push_back(&fiber);
    if (barrier == 0 && !fiber.done && fiber.barrier != 0) return;
  }
  if (here.empty() || (barrier != 0 && here.size() < here.front()->expected)) return;
  std::vector<std::uint64_t> known(block.fibers.size());
  const bool any = std::any_of(here.begin(), here.end(), [](const Fiber* fiber) { return fiber->vote; });
  float sum = 0;
  for (const Fiber* fiber : here) sum += fiber->part;
  for (const Fiber* fiber : here) {
    for (std::size_t thread = 0; thread < known.size(); ++thread)
      known[thread] = std::max(known[thread], fiber->known[thread]);
    auto& own = known[static_cast<std::size_t>(fiber->thread)];
    own = std::max(own, fiber->stores);
  }
  for (Fiber* fiber : here) {
    fiber->known = known;
    fiber->any = any;
    fiber->vote = false;
    fiber->sum = sum;
    fiber->part = 0;
    fiber->barrier = -1;
  }
  idle = 0;
}

void Machine::Inside::deliver_some() {
  if (!chance(30)) return;
  const auto rank = below(running.size());
  if (deliver_from(left_behind[rank]) || !running[rank]) return;
  std::vector<Block>& blocks = running[rank]->blocks;
  deliver_from(blocks[below(blocks.size())].flights);
}

// A few of them, each with those before it to the same address.
bool Machine::Inside::deliver_from(std::vector<Flight>& flights) {
  if (flights.empty()) return false;
  bool any = false;
  for (std::uint32_t i = 0, count = 1 + below(4); i < count && !flights.empty(); ++i) {
    const std::uint32_t chosen = below(flights.size());
    if (flights[chosen].late && !chance(1)) continue;
    unsigned char* const to = flights[chosen].to;
    const auto first =
        std::find_if(flights.begin(), flights.end(), [&](const Flight& flight) { return flight.to == to; });
    deliver(*first);
    flights.erase(first);
    any = true;
  }
  if (any) idle = 0;
  return any;
}

void Machine::Inside::deliver_all() {
  for (std::size_t rank = 0; rank < running.size(); ++rank) {
    for (const Flight& flight : left_behind[rank]) deliver(flight);
    left_behind[rank].clear();
    if (!running[rank]) continue;
    for (Block& block : running[rank]->blocks) {
      for (const Flight& flight : block.flights) deliver(flight);
      block.flights.clear();
    }
  }
}

bool Machine::Inside::in_own_scratch(const Flight& flight, int rank) const {
  const unsigned char* own = scratch[static_cast<std::size_t>(rank)];
  return flight.to >= own && flight.to < own + layout.bytes;
}

void Machine::Inside::fly(void* to, std::uint64_t value, int bytes) {
  Block& block = *current->block;
  // What an earlier kernel of this rank sent to the same address comes first.
  std::vector<Flight>& older = left_behind[static_cast<std::size_t>(block.kernel->rank)];
  for (auto flight = older.begin(); flight != older.end();) {
    if (flight->to != to) {
      ++flight;
      continue;
    }
    deliver(*flight);
    flight = older.erase(flight);
  }
  block.flights.push_back(
      {static_cast<unsigned char*>(to), value, bytes, current->thread, ++current->stores, chance(5)});
  idle = 0;
  if (chance(10)) yield();
}

std::string Machine::Inside::waiting() const {
  std::string text;
  for (std::size_t rank = 0; rank < running.size(); ++rank) {
    text += "rank " + std::to_string(rank) + (running[rank] ? " in a kernel, " : " between kernels, ");
    text += std::to_string(queues[rank].size()) + " to come; ";
  }
  return text;
}

}  // namespace busbw::gpu::test

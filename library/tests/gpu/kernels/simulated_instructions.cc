// What kernels ask of a GPU (machine.h), done by the simulated machine whose fibers run.
#include <algorithm>
#include <cstring>

#include "library/tests/gpu/kernels/simulated_threads.h"
namespace busbw::gpu {

using test::Block;
using test::Flight;
using test::machine;

unsigned thread_index() { return static_cast<unsigned>(machine->current->thread); }
unsigned thread_count() { return static_cast<unsigned>(machine->current->block->fibers.size()); }
unsigned channel_index() { return static_cast<unsigned>(machine->current->block->index); }
unsigned channel_count() { return static_cast<unsigned>(machine->current->block->kernel->blocks.size()); }

void group_sync(unsigned barrier, unsigned threads) {
  machine->current->barrier = static_cast<int>(barrier);
  machine->current->expected = threads;
  machine->pass_barrier(*machine->current->block, static_cast<int>(barrier));
  machine->yield();
}

void block_sync() { group_sync(0, thread_count()); }

float block_sum(float mine) {
  machine->current->part = mine;
  block_sync();
  return machine->current->sum;
}

bool block_any(bool mine) {
  machine->current->vote = mine;
  block_sync();
  return machine->current->any;
}

void pause() { machine->yield(); }

void store_pairs(void* to, std::uint64_t low, std::uint64_t high) {
  auto* bytes = static_cast<unsigned char*>(to);
  machine->fly(bytes, low, 8);
  machine->fly(bytes + 8, high, 8);
}

void store_relaxed(void* to, const Words& value) {
  auto* bytes = static_cast<unsigned char*>(to);
  for (int i = 0; i < 4; ++i) machine->fly(bytes + 4 * i, value.word[i], 4);
}

void store_data(void* to, const Words& value) { store_relaxed(to, value); }

void store_flag(void* to, std::uint32_t value) { machine->fly(to, value, 4); }

void load_pairs(const void* from, std::uint64_t& low, std::uint64_t& high) {
  const auto* bytes = static_cast<const unsigned char*>(from);
  const bool high_first = machine->chance(50);
  if (high_first) std::memcpy(&high, bytes + 8, 8);
  if (machine->chance(5)) machine->yield();
  std::memcpy(&low, bytes, 8);
  if (machine->chance(5)) machine->yield();
  if (!high_first) std::memcpy(&high, bytes + 8, 8);
}

Words load_relaxed(const void* from) {
  Words words{};
  const std::uint32_t first = machine->below(4);
  for (std::uint32_t i = 0; i < 4; ++i) {
    const std::uint32_t at = (first + i) % 4;
    std::memcpy(&words.word[at], static_cast<const unsigned char*>(from) + 4 * at, 4);
    if (machine->chance(3)) machine->yield();
  }
  return words;
}

std::uint32_t load_flag(const void* from) {
  std::uint32_t value;
  std::memcpy(&value, from, 4);
  return value;
}

std::uint32_t load_flag_acquire(const void* from) { return load_flag(from); }

void release_fence() {
  Block& block = *machine->current->block;
  const int thread = machine->current->thread;
  std::vector<Flight>& older = machine->left_behind[static_cast<std::size_t>(block.kernel->rank)];
  for (const Flight& flight : older) test::deliver(flight);
  older.clear();
  const auto covered = [&](const Flight& flight) {
    return flight.thread == thread || flight.number <= machine->current->known[static_cast<std::size_t>(flight.thread)];
  };
  for (const Flight& flight : block.flights)
    if (covered(flight)) test::deliver(flight);
  block.flights.erase(std::remove_if(block.flights.begin(), block.flights.end(), covered), block.flights.end());
}

}  // namespace busbw::gpu

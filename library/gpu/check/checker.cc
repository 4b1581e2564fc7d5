// Checks of a communicator's calls.
#include "library/gpu/check/checker.h"

#include <algorithm>
#include <utility>

#include "library/common/failure.h"
#include "library/gpu/api/call_by_nccl.h"
#include "library/gpu/check/ledger.h"
#include "library/gpu/check/rounding.h"
#include "library/gpu/choose/choice_table.h"

namespace busbw::gpu {
namespace {

// Of each of the vectors that are compared, at a time.
constexpr std::size_t chunk_bytes = std::size_t(4) << 20;
constexpr int compared_vectors = 4;
constexpr std::size_t alignment = 256;
// Inputs, both outputs, the largest and the smallest inputs.
constexpr int most_regions = 5;

std::size_t aligned(std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

const char* reduction_name(ncclRedOp_t op) {
  constexpr const char* names[] = {"sum", "prod", "max", "min", "avg"};
  return op >= ncclSum && op <= ncclAvg ? names[op] : "by another operator";
}

// Any function that spreads call numbers over a vector (splitmix64, by S. Vigna).
std::uint64_t spread(std::uint64_t number) {
  number += 0x9e3779b97f4a7c15;
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9;
  number = (number ^ (number >> 27)) * 0x94d049bb133111eb;
  return number ^ (number >> 31);
}

int blocks_in(Collective collective, int ranks) {
  return collective == Collective::reduce_scatter || collective == Collective::all_to_all ? ranks : 1;
}
int blocks_out(Collective collective, int ranks) {
  return collective == Collective::all_gather || collective == Collective::all_to_all ? ranks : 1;
}

}  // namespace

// A call that is being checked: of each block of it, `length` elements from `offset` on.
struct Checker::One {
  Call call;
  Place place;
  std::string how;
  std::uint64_t number = 0;
  std::size_t offset = 0, length = 0;
  unsigned char *input = nullptr, *ours = nullptr, *theirs = nullptr, *most = nullptr, *least = nullptr;
  bool asked = false;
  bool over = false;  // it is told; chunks come one after the other

  bool whole() const { return length == call.count; }
  // Of the call's output, for one of the compared vectors.
  std::size_t element(std::size_t at) const { return at / length * call.count + offset + at % length; }
};

struct Checker::Chunk {
  std::shared_ptr<One> one;
  std::shared_ptr<Health> health;
  std::shared_ptr<std::atomic<int>> running;
  const unsigned char* vectors[compared_vectors];
  std::size_t first = 0, count = 0;  // elements
  bool last = false;
};

Checker::Checker(std::shared_ptr<Device> device, Place place, std::shared_ptr<Health> health, std::size_t bytes)
    : device_(std::move(device)), place_(std::move(place)), health_(std::move(health)), bytes_(bytes) {
  memory_ = static_cast<unsigned char*>(device_->allocate(bytes_));
  try {
    host_ = device_->allocate_host(chunk_bytes * compared_vectors);
  } catch (const Failure&) {
    device_->release(memory_);
    throw;
  }
}

// After an abort something may still be in a stream: then its memory stays.
Checker::~Checker() {
  if (*running_ > 0) return;
  device_->release(memory_);
  device_->release(host_);
}

void Checker::begin(int calls) {
  share_ = bytes_ / std::size_t(std::max(1, calls)) / alignment * alignment;
  used_ = 0;
  open_.clear();
}

unsigned char* Checker::take(std::size_t bytes) {
  unsigned char* const at = memory_ + used_;
  used_ += aligned(bytes);
  return at;
}

void Checker::copy_parts(unsigned char* to, const void* from, int blocks, const One& one, DeviceStream stream) {
  const std::size_t element = type_bytes(one.call.type);
  const std::size_t part = one.length * element;
  if (one.whole()) return device_->copy(to, from, part * std::size_t(blocks), stream);
  for (std::size_t block = 0; block < std::size_t(blocks); ++block) {
    const std::size_t at = (block * one.call.count + one.offset) * element;
    device_->copy(to + block * part, static_cast<const unsigned char*>(from) + at, part, stream);
  }
}

void Checker::save(const Call& call, DeviceStream stream, const std::string& how, std::uint64_t number) {
  current_ = nullptr;
  const int in = blocks_in(call.collective, place_.ranks);
  const int out = blocks_out(call.collective, place_.ranks);
  const std::size_t element = type_bytes(call.type);
  const std::size_t line = element * std::size_t(in + out * (rounds(call) ? 4 : 2));
  const std::size_t lost = most_regions * alignment;
  const std::size_t room = share_ > lost ? (share_ - lost) / line : 0;
  if (room == 0) return Ledger::of_this_process().skip("a group of too many calls");
  auto one = std::make_shared<One>(One{.call = call, .place = place_, .how = how, .number = number});
  one->call.stream = stream;
  one->length = std::min(call.count, room);
  if (!one->whole()) one->offset = spread(number) % (call.count - one->length + 1);
  const std::size_t part = one->length * element;
  one->input = take(part * std::size_t(in));
  one->ours = take(part * std::size_t(out));
  one->theirs = take(part * std::size_t(out));
  if (rounds(call)) {
    one->most = take(part * std::size_t(out));
    one->least = take(part * std::size_t(out));
  }
  // Of a broadcast only the root has an input.
  if (call.collective != Collective::broadcast || call.root == place_.rank) {
    copy_parts(one->input, call.send, in, *one, stream);
  }
  current_ = std::move(one);
}

void Checker::keep() {
  if (!current_) return;
  const Call& call = current_->call;
  copy_parts(current_->ours, call.recv, blocks_out(call.collective, place_.ranks), *current_, call.stream);
  open_.push_back(std::move(current_));
}

bool Checker::ask_for(const One& one, ncclRedOp_t op, unsigned char* to) {
  Call call = one.call;
  call.send = one.input;
  call.recv = to;
  call.count = one.length;
  call.op = op;
  return call_by_nccl(place_.comm, call) == ncclSuccess;
}

void Checker::ask_nccl() {
  for (const auto& one : open_) {
    one->asked = ask_for(*one, one->call.op, one->theirs);
    if (!one->asked || !one->most) continue;
    one->asked = ask_for(*one, ncclMax, one->most) && ask_for(*one, ncclMin, one->least);
  }
}

void Checker::compare() {
  for (const auto& one : std::exchange(open_, {})) {
    if (!one->asked) {
      Ledger::of_this_process().skip("NCCL refused the call");
      continue;
    }
    const std::size_t element = type_bytes(one->call.type);
    const std::size_t total = one->length * std::size_t(blocks_out(one->call.collective, place_.ranks));
    const unsigned char* const vectors[compared_vectors] = {one->ours, one->theirs, one->most, one->least};
    for (std::size_t first = 0; first < total; first += chunk_bytes / element) {
      auto chunk = std::make_unique<Chunk>(Chunk{.one = one, .health = health_, .running = running_, .first = first});
      chunk->count = std::min(chunk_bytes / element, total - first);
      chunk->last = first + chunk->count == total;
      for (int i = 0; i < compared_vectors; ++i) {
        unsigned char* const here = static_cast<unsigned char*>(host_.host) + std::size_t(i) * chunk_bytes;
        chunk->vectors[i] = here;
        if (!vectors[i]) continue;
        device_->copy_out(here, vectors[i] + first * element, chunk->count * element, one->call.stream);
      }
      ++*running_;
      try {
        device_->call(one->call.stream, compare_chunk, chunk.get());
      } catch (const Failure&) {
        --*running_;
        throw;
      }
      static_cast<void>(chunk.release());
    }
  }
}

// On a thread of the driver, when all that comes before it in the stream is done.
void Checker::compare_chunk(void* data) {
  const std::unique_ptr<Chunk> chunk(static_cast<Chunk*>(data));
  One& one = *chunk->one;
  const std::size_t element = type_bytes(one.call.type);
  std::string difference;
  for (std::size_t i = 0; i < chunk->count && difference.empty() && !one.over; ++i) {
    const auto at = [&](int vector) { return chunk->vectors[vector] + i * element; };
    if (agrees(one.call, one.place.ranks, {at(0), at(1), at(2), at(3)})) continue;
    const bool sums = reduces(one.call.collective);
    difference =
        text("%s%s%s of %zu %s, call %llu on rank %d of %s: element %zu is %s by busbw (%s) and %s by NCCL",
             name(one.call.collective), sums ? " " : "", sums ? reduction_name(one.call.op) : "", one.call.count,
             type_name(one.call.type), static_cast<unsigned long long>(one.number), one.place.rank,
             one.place.name.c_str(), one.element(chunk->first + i), value_text(one.call.type, at(0)).c_str(),
             one.how.c_str(), value_text(one.call.type, at(1)).c_str());
  }
  Ledger& ledger = Ledger::of_this_process();
  if (one.over) {
    // An earlier chunk has told.
  } else if (chunk->health->code() != ncclSuccess) {
    // Kernels that were ended have left anything behind.
    one.over = true;
    ledger.skip("its communicator was stopped");
  } else if (!difference.empty()) {
    one.over = true;
    ledger.differ(difference);
  } else if (chunk->last) {
    ledger.agree(one.whole());
  }
  --*chunk->running;
}

}  // namespace busbw::gpu

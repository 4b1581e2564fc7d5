// Shares of a GPU among the communicators of a process.
#include "library/gpu/join/room.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <map>

#include "library/gpu/watch/background.h"

namespace busbw::gpu {
namespace {

// Every block of ours takes half of a multiprocessor at most (kernels/instances.h and most_threads in names.h).
constexpr int blocks_of_a_multiprocessor = 2;

// Left over by a communicator that is alone: an exchange of NCCL's own takes one block.
constexpr int spare_multiprocessors = 4;

}  // namespace

int fair_share(int multiprocessors, int population) {
  const int all = std::max(1, std::min(max_channels, multiprocessors - spare_multiprocessors));
  if (population <= 1) return all;
  const unsigned part = unsigned(all) / unsigned(population);
  return part == 0 ? 1 : int(std::bit_floor(part));
}

// Share
// ---------------------------------------------------------------------------------------------------

Share::~Share() = default;

int Share::limit_at(std::uint64_t call) const {
  int limit = limit_;
  for (const Change& change : changes_) {
    if (change.from <= call) limit = std::min(limit, change.limit);
  }
  return limit;
}

Share::Place Share::next() {
  std::unique_lock lock(guard_);
  while (frozen_ > 0 && !process_ends()) thawed_.wait_for(lock, std::chrono::milliseconds(20));
  const std::uint64_t call = calls_++;
  return {call, changes_.empty() ? limit_ : limit_at(call)};
}

void Share::take_back(int calls) {
  const std::lock_guard lock(guard_);
  calls_ -= std::min(calls_, std::uint64_t(calls));
}

Share::Place Share::now() const {
  const std::lock_guard lock(guard_);
  return {calls_, limit_at(calls_)};
}

int Share::held() const {
  const std::lock_guard lock(guard_);
  return std::max(kept_, limit_at(calls_));
}

void Share::keep() {
  const std::lock_guard lock(guard_);
  kept_ = std::max(kept_, limit_at(calls_));
}

void Share::settle(int limit, std::uint64_t identity, int ranks) {
  const std::lock_guard lock(guard_);
  limit_ = limit;
  ranks_ = ranks;
  identity_ = identity;  // who sees it sees the others
}

std::uint64_t Share::freeze() {
  const std::lock_guard lock(guard_);
  ++frozen_;
  return calls_;
}

void Share::thaw() {
  {
    const std::lock_guard lock(guard_);
    --frozen_;
  }
  thawed_.notify_all();
}

// Only what still makes a difference is kept: a program may make communicators for as long as it runs.
void Share::narrow(std::uint64_t from, int limit) {
  const std::lock_guard lock(guard_);
  const auto has_no_effect = [](const Change& later, const Change& earlier) {
    return earlier.from <= later.from && earlier.limit <= later.limit;
  };
  const Change made{from, limit};
  for (const Change& one : changes_) {
    if (has_no_effect(made, one)) return;
  }
  std::erase_if(changes_, [&](const Change& one) { return has_no_effect(one, made); });
  changes_.push_back(made);
}

// Room
// ---------------------------------------------------------------------------------------------------

std::shared_ptr<Room> Room::of(const DeviceFacts& facts, int sharers) {
  static std::mutex guard;
  // Never destroyed: communicators may go while the process ends.
  static auto* rooms = new std::map<std::array<unsigned char, 16>, std::shared_ptr<Room>>;
  const std::lock_guard lock(guard);
  std::shared_ptr<Room>& room = (*rooms)[facts.uuid];
  if (!room) room = std::make_shared<Room>(part_of(facts, sharers));
  return room;
}

int Room::part_of(const DeviceFacts& facts, int sharers) { return std::max(1, facts.multiprocessors / sharers); }

std::vector<std::shared_ptr<Share>> Room::members() const {
  const std::lock_guard lock(guard_);
  std::vector<std::shared_ptr<Share>> living;
  std::erase_if(members_, [](const auto& member) { return member.expired(); });
  for (const auto& member : members_) {
    if (auto share = member.lock()) living.push_back(std::move(share));
  }
  return living;
}

int Room::population() const { return int(members().size()); }

std::shared_ptr<Share> Room::enter(int most, int least) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  const std::vector<std::shared_ptr<Share>> others = members();
  int left = blocks_of_a_multiprocessor * multiprocessors_;
  for (const auto& other : others) left -= other->held();
  int limit = std::min({fair_share(multiprocessors_, int(others.size()) + 1), most, left});
  if (limit < least) limit = std::min({least, most, left}) < least ? 0 : least;
  auto share = std::make_shared<Share>(shared_from_this(), std::max(0, limit));
  const std::lock_guard members_lock(guard_);
  members_.push_back(share);
  return share;
}

}  // namespace busbw::gpu

// Allocations of the program that peers read from, and theirs.
#include "library/gpu/join/lending.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include "library/common/failure.h"
#include "library/gpu/watch/background.h"

namespace busbw::gpu {
namespace {

using std::chrono::milliseconds;

constexpr int most_misses = 4;
constexpr int longest_pause = 4096;

constexpr milliseconds between_looks{50};
constexpr std::size_t most_refused = 1000;

// Looks after all of this process, as long as there are any.
class Caretaker {
 public:
  static Caretaker& of_this_process() {
    static auto* const one = new Caretaker;  // its thread may go on as long as the process
    return *one;
  }
  void add(const std::shared_ptr<Lending>& one) {
    const std::lock_guard lock(guard_);
    all_.push_back(one);
    if (!runs_) runs_ = in_background([this] { run(); });
  }

 private:
  void run() {
    for (;;) {
      rest_if_the_process_ends();
      std::this_thread::sleep_for(between_looks);
      rest_if_the_process_ends();
      std::vector<std::shared_ptr<Lending>> alive;
      {
        const std::lock_guard lock(guard_);
        std::erase_if(all_, [](const auto& one) { return one.expired(); });
        runs_ = !all_.empty();
        if (!runs_) return;
        for (const auto& one : all_) alive.push_back(one.lock());
      }
      for (const auto& one : alive) {
        if (one) one->look_after();
      }
    }
  }

  std::mutex guard_;
  std::vector<std::weak_ptr<Lending>> all_;
  bool runs_ = false;
};

}  // namespace

Lending::Lending(std::shared_ptr<Device> device, Consent& consent, int rank, int ranks, bool talks)
    : device_(std::move(device)), consent_(&consent), rank_(rank), ranks_(ranks), talks_(talks) {}

Lending::~Lending() { close(); }

std::optional<Lending::Addresses> Lending::of_call(const void* send, std::size_t bytes, bool able) {
  const AsideFromCaptures aside;
  const std::lock_guard lock(guard_);
  if (!consent_) return std::nullopt;
  catch_up();
  const std::optional<Consent::Offer> mine = able ? offer(send, bytes) : std::nullopt;
  const auto began = std::chrono::steady_clock::now();
  const std::optional<Consent::Offers> offers = consent_->meet(
      mine, [&] { return without_waiting_ == 0 && std::chrono::steady_clock::now() - began < longest_wait; });
  count(offers.has_value());
  if (!offers) return std::nullopt;
  Addresses addresses{};
  for (int rank = 0; rank < ranks_; ++rank) {
    const Consent::Offer& of_rank = (*offers)[std::size_t(rank)];
    const auto* begin = rank == rank_
                            ? own_[of_rank.allocation].begin
                            : static_cast<const unsigned char*>(opened_[std::size_t(rank)][of_rank.allocation].at);
    addresses[std::size_t(rank)] = begin + of_rank.offset;
  }
  issuing_ = true;
  return addresses;
}

void Lending::count(bool lent) {
  ++calls_;
  lent_calls_ += lent;
  late_ += consent_->missed();
  if (lent) pause_ = least_pause;
  if (without_waiting_ > 0) {
    --without_waiting_;
    return;
  }
  misses_ = consent_->missed() ? misses_ + 1 : 0;
  if (misses_ < most_misses) return;
  misses_ = 0;
  without_waiting_ = pause_;
  pause_ = std::min(2 * pause_, longest_pause);
}

void Lending::issued(DeviceStream stream) {
  const std::lock_guard lock(guard_);
  if (!used_) used_ = device_->create_event();
  device_->record(used_, stream);
  issuing_ = false;
}

std::optional<Consent::Offer> Lending::offer_of(std::size_t index, const void* send, std::size_t bytes) const {
  const Own& own = own_[index];
  const auto* const begin = static_cast<const unsigned char*>(send);
  if (begin < own.begin || std::uint64_t(begin - own.begin) + bytes > own.bytes) return std::nullopt;
  return Consent::Offer{
      .allocation = std::uint32_t(index), .edition = own.edition, .offset = std::uint64_t(begin - own.begin)};
}

std::optional<Consent::Offer> Lending::offer(const void* send, std::size_t bytes) {
  const std::uint64_t number = short_of_memory_ ? 0 : device_->allocation_of(send);
  if (number == 0 || refused_.contains(number)) return std::nullopt;
  const auto with = [&](std::uint64_t wanted) {
    return std::find_if(own_.begin(), own_.end(), [&](const Own& own) { return own.number == wanted; });
  };
  if (const auto known = with(number); known != own_.end()) {
    return offer_of(std::size_t(known - own_.begin()), send, bytes);
  }
  if (with(0) == own_.end()) forget_freed();
  const auto free = with(0);
  if (free == own_.end()) return std::nullopt;
  try {
    Descriptor descriptor;
    RangeHandle range = device_->share_range(send, bytes, descriptor);
    if (range.by_descriptor)
      throw Failure(ncclInvalidUsage, "memory of cuMemCreate has no handle that fits into a page");
    *free = {.number = number,
             .begin = static_cast<const unsigned char*>(send) - range.offset,
             .bytes = range.allocation,
             .edition = consent_->put(int(free - own_.begin()), range)};
    lent_ += free->bytes;
  } catch (const Failure&) {
    if (refused_.size() >= most_refused) refused_.clear();
    refused_.insert(number);
    return std::nullopt;
  }
  if (lent_ == free->bytes) Caretaker::of_this_process().add(shared_from_this());
  return offer_of(std::size_t(free - own_.begin()), send, bytes);
}

void Lending::give_up(Own& own, std::size_t index) {
  consent_->withdraw(int(index));
  lent_ -= own.bytes;
  own = {};
}

void Lending::forget_freed() {
  for (std::size_t i = 0; i < own_.size(); ++i) {
    Own& own = own_[i];
    if (own.number != 0 && device_->allocation_of(own.begin) != own.number) give_up(own, i);
  }
}

// A mapping that copies still go through stays.
bool Lending::may_close() { return !issuing_ && (!used_ || device_->done(used_)); }

void Lending::catch_up() {
  for (int rank = 0; rank < ranks_; ++rank) {
    if (rank == rank_) continue;
    const std::uint32_t version = consent_->version(rank);
    if (version == versions_[std::size_t(rank)]) continue;
    bool all = true;
    for (int index = 0; index < Consent::allocations; ++index) all = catch_up(rank, index) && all;
    if (all) versions_[std::size_t(rank)] = version;
  }
}

bool Lending::catch_up(int rank, int index) {
  const Consent::Listed listed = consent_->listed(rank, index);
  Opened& opened = opened_[std::size_t(rank)][std::size_t(index)];
  if (listed.edition == opened.edition) return true;
  if (opened.at && !may_close()) return false;
  consent_->say_opened(rank, index, 0);
  if (opened.at) device_->close_range(opened.range, opened.at);
  opened = {.edition = listed.edition, .at = nullptr, .range = listed.range};
  if (listed.edition == 0) return true;
  try {
    opened.at = device_->open_range(listed.range, Descriptor());
    consent_->say_opened(rank, index, listed.edition);
  } catch (const Failure&) {
    // Then no call takes it.
  }
  return true;
}

void Lending::look_after() {
  const AsideFromCaptures aside;
  const std::unique_lock lock(guard_, std::try_to_lock);
  if (!lock.owns_lock() || !consent_) return;
  try {
    forget_freed();
    // A program that is about to need memory must get what it frees at once.
    if (lent_ > device_->free_memory() && !short_of_memory_) {
      short_of_memory_ = true;
      for (std::size_t i = 0; i < own_.size(); ++i) {
        if (own_[i].number != 0) give_up(own_[i], i);
      }
    }
    catch_up();
  } catch (const Failure&) {
    // The GPU's context is lost; the next call says so.
  }
}

void Lending::close() noexcept {
  const AsideFromCaptures aside;
  const std::lock_guard lock(guard_);
  if (!consent_) return;
  for (int rank = 0; rank < ranks_; ++rank) {
    for (int index = 0; index < Consent::allocations; ++index) {
      const Opened& opened = opened_[std::size_t(rank)][std::size_t(index)];
      if (!opened.at) continue;
      consent_->say_opened(rank, index, 0);
      device_->close_range(opened.range, opened.at);
    }
  }
  if (talks_ && calls_ > 0) {
    std::fprintf(
        stderr,
        "busbw: rank %d: of %llu calls that could, %llu read from the peers' own buffers (%llu times a rank did "
        "not come in time)\n",
        rank_, static_cast<unsigned long long>(calls_), static_cast<unsigned long long>(lent_calls_),
        static_cast<unsigned long long>(late_));
  }
  if (used_) device_->destroy(used_);
  consent_ = nullptr;
}

}  // namespace busbw::gpu

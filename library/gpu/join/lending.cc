// Allocations of the program that peers read from, and theirs.
#include "library/gpu/join/lending.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>
#include <utility>
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

// So many allocations of a run at least, where there are so many: buffers lie beside each other. More than a letter
// takes are not lent.
constexpr std::size_t run_of_chunks = 16;

// What a letter is about.
constexpr std::uint64_t subject(std::size_t index, std::uint32_t edition) {
  return std::uint64_t(index) << 32 | std::uint64_t(edition);
}

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
  deliver();
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

std::optional<Consent::Offer> Lending::offer_of_chunks(const void* send, std::size_t bytes) {
  for (std::size_t i = 0; i < own_.size(); ++i) {
    if (own_[i].chunks.allocations.empty()) continue;
    const std::optional<Consent::Offer> offer = offer_of(i, send, bytes);
    if (!offer) continue;
    if (device_->are_there(own_[i].chunks, send, bytes)) return offer;
    give_up(own_[i], i);
  }
  return std::nullopt;
}

std::optional<Consent::Offer> Lending::offer(const void* send, std::size_t bytes) {
  if (short_of_memory_) return std::nullopt;
  if (const auto known = offer_of_chunks(send, bytes)) return known;
  const std::uint64_t number = device_->allocation_of(send);
  if (number == 0 || refused_.contains(number)) return std::nullopt;
  const auto known = std::find_if(
      own_.begin(), own_.end(), [&](const Own& own) { return own.number == number && own.chunks.allocations.empty(); });
  if (known != own_.end()) return offer_of(std::size_t(known - own_.begin()), send, bytes);
  const auto a_free_one = [&] {
    return std::find_if(own_.begin(), own_.end(), [](const Own& own) { return own.number == 0; });
  };
  if (a_free_one() == own_.end()) forget_freed();
  const auto free = a_free_one();
  if (free == own_.end()) return std::nullopt;
  const std::size_t index = std::size_t(free - own_.begin());
  try {
    lend(*free, index, number, send, bytes);
  } catch (const Failure&) {
    if (refused_.size() >= most_refused) refused_.clear();
    refused_.insert(number);
    return std::nullopt;
  }
  lent_ += free->bytes;
  if (lent_ == free->bytes) Caretaker::of_this_process().add(shared_from_this());
  return offer_of(index, send, bytes);
}

// Fills `own` in only where nothing has failed.
void Lending::lend(Own& own, std::size_t index, std::uint64_t number, const void* send, std::size_t bytes) {
  Chunks chunks = device_->retain_chunks(send, bytes, run_of_chunks);
  RangeHandle range{};
  try {
    if (chunks.allocations.empty()) {
      Descriptor descriptor;
      range = device_->share_range(send, bytes, descriptor);
      if (range.by_descriptor) throw Failure(ncclInvalidUsage, "memory of cuMemCreate that is not all there");
    } else if (chunks.allocations.size() > DescriptorPost::most) {
      throw Failure(ncclInvalidUsage, "memory of more allocations than a letter takes");
    } else {
      open_post();
      device_->share(chunks);  // fails where the program has not asked for handles of this kind
      range.allocation = chunks.each * chunks.allocations.size();
      range.offset = std::uint64_t(static_cast<const unsigned char*>(send) - chunks.begin);
    }
  } catch (const Failure&) {
    device_->release(chunks);
    throw;
  }
  const bool by_post = !chunks.allocations.empty();
  own = {.number = number,
         .begin = static_cast<const unsigned char*>(send) - range.offset,
         .bytes = range.allocation,
         .edition = consent_->put(int(index), range, chunks.allocations.size()),
         .chunks = std::move(chunks),
         .unsent = by_post ? ((std::uint64_t{1} << ranks_) - 1) & ~(std::uint64_t{1} << rank_) : 0};
  delivered_ = delivered_ && !by_post;
  deliver();
}

void Lending::open_post() {
  if (post_) return;
  post_ = std::make_unique<DescriptorPost>();
  consent_->announce(post_->address());
}

// To peers that can take it now; the others are tried again and again.
void Lending::deliver() noexcept {
  if (delivered_) return;
  delivered_ = true;
  for (std::size_t i = 0; i < own_.size(); ++i) {
    for (int rank = 0; own_[i].unsent != 0 && rank < ranks_; ++rank) {
      const std::uint64_t bit = std::uint64_t{1} << rank;
      if ((own_[i].unsent & bit) && deliver(own_[i], i, rank)) own_[i].unsent &= ~bit;
    }
    delivered_ = delivered_ && own_[i].unsent == 0;
  }
}

bool Lending::deliver(Own& own, std::size_t index, int rank) {
  const std::optional<PostAddress> to = consent_->mailbox(rank);
  if (!to) return false;
  try {
    return post_->offer(*to, rank_, subject(index, own.edition), device_->share(own.chunks));
  } catch (const Failure&) {
    return true;  // the peer is gone, or gets none; no call takes it then
  }
}

void Lending::give_up(Own& own, std::size_t index) {
  consent_->withdraw(int(index));
  lent_ -= own.bytes;
  device_->release(own.chunks);
  own = {};
}

bool Lending::is_there(const Own& own) {
  if (own.chunks.allocations.empty()) return device_->allocation_of(own.begin) == own.number;
  return device_->are_there(own.chunks, own.begin, own.bytes);
}

void Lending::forget_freed() {
  for (std::size_t i = 0; i < own_.size(); ++i) {
    if (own_[i].number != 0 && !is_there(own_[i])) give_up(own_[i], i);
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
  opened = {};
  if (listed.edition == 0) return true;
  try {
    if (!open(rank, index, listed, opened)) return false;
    consent_->say_opened(rank, index, listed.edition);
  } catch (const Failure&) {
    // Then no call takes it.
  }
  opened.edition = listed.edition;
  opened.range = listed.range;
  return true;
}

// False where the letter with its handles is not here yet.
bool Lending::open(int rank, int index, const Consent::Listed& listed, Opened& opened) {
  if (listed.chunks == 0) {
    opened.at = device_->open_range(listed.range, Descriptor());
    return true;
  }
  open_post();
  take_letters();
  const auto letter = std::find_if(letters_.begin(), letters_.end(), [&](const DescriptorPost::Letter& each) {
    return each.rank == rank && each.about == subject(std::size_t(index), listed.edition);
  });
  if (letter == letters_.end()) return false;
  const std::vector<Descriptor> descriptors = std::move(letter->descriptors);
  letters_.erase(letter);
  if (descriptors.size() != listed.chunks) throw Failure(ncclInternalError, "a letter with other contents");
  opened.at = device_->open_chunks(listed.range.allocation / listed.chunks, descriptors);
  return true;
}

// Of what was withdrawn since, none is kept.
void Lending::take_letters() {
  while (auto letter = post_->take()) {
    const bool known = letter->rank >= 0 && letter->rank < ranks_ && letter->rank != rank_ &&
                       letter->about >> 32 < std::uint64_t(Consent::allocations);
    if (known) letters_.push_back(std::move(*letter));
  }
  std::erase_if(letters_, [&](const DescriptorPost::Letter& letter) {
    return consent_->listed(letter.rank, int(letter.about >> 32)).edition != std::uint32_t(letter.about);
  });
}

void Lending::look_after() {
  const AsideFromCaptures aside;
  const std::unique_lock lock(guard_, std::try_to_lock);
  if (!lock.owns_lock() || !consent_) return;
  try {
    deliver();
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
  for (Own& own : own_) device_->release(std::exchange(own.chunks, {}));
  if (used_) device_->destroy(used_);
  consent_ = nullptr;
}

}  // namespace busbw::gpu

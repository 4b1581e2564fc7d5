// Offers and answers of each call, and the directory of allocations.
#include "library/gpu/join/consent.h"

#include <algorithm>
#include <cstring>

namespace busbw::gpu {
namespace {

// A place packed: the edition above, the allocation below, and a bit that says that there is one.
constexpr std::uint64_t there = 1;
constexpr std::uint64_t packed(const Consent::Offer& offer) {
  return std::uint64_t(offer.edition) << 32 | std::uint64_t(offer.allocation) << 8 | there;
}
constexpr Consent::Offer unpacked(std::uint64_t place, std::uint64_t offset) {
  return {.allocation = std::uint32_t(place >> 8) & 0xffffff, .edition = std::uint32_t(place >> 32), .offset = offset};
}
static_assert(Consent::allocations <= 1 << 24);

constexpr std::uint64_t answer(std::uint64_t call, bool yes) { return (call + 1) << 1 | std::uint64_t(yes); }
constexpr bool answers(std::uint64_t decision, std::uint64_t call) { return decision >> 1 == call + 1; }

}  // namespace

bool Consent::over(std::uint64_t call) const {
  const std::uint64_t from = words_.over.load();
  return from != 0 && call + 1 >= from;
}

bool Consent::all_posted(const Words::Slot& slot, std::uint64_t call) const {
  return std::all_of(slot.posts, slot.posts + ranks_,
                     [&](const auto& post) { return post.call.load(std::memory_order_acquire) == call + 1; });
}

// Every rank lends, and every other one has opened that edition.
bool Consent::all_can(const Words::Slot& slot) const {
  for (int owner = 0; owner < ranks_; ++owner) {
    const std::uint64_t place = slot.posts[owner].place.load(std::memory_order_relaxed);
    const Offer offer = unpacked(place, 0);
    if (!(place & there) || offer.allocation >= std::uint32_t(allocations)) return false;
    for (int reader = 0; reader < ranks_; ++reader) {
      if (reader != owner && words_.opened[reader][owner][offer.allocation].load() != offer.edition) return false;
    }
  }
  return true;
}

std::optional<Consent::Offers> Consent::meet(const std::optional<Offer>& mine, const std::function<bool()>& waits_on) {
  const std::uint64_t call = calls_++;
  missed_ = false;
  if (over(call)) return std::nullopt;
  Words::Slot& slot = words_.slots[call % slots];
  // A rank so far behind may still have to read what was said there. It has offered nothing for this call or a later
  // one, so that yes was said for none of them, and this rank will offer nothing any more.
  for (int rank = 0; rank < ranks_; ++rank) {
    if (words_.known[rank].load() + slots > call) continue;
    std::uint64_t from = words_.over.load();
    while ((from == 0 || call + 1 < from) && !words_.over.compare_exchange_weak(from, call + 1)) {
    }
    missed_ = true;
    return std::nullopt;
  }
  Words::Post& post = slot.posts[rank_];
  post.place.store(mine ? packed(*mine) : 0, std::memory_order_relaxed);
  post.offset.store(mine ? mine->offset : 0, std::memory_order_relaxed);
  post.call.store(call + 1);
  std::uint64_t said = slot.decision.load();
  while (!answers(said, call)) {
    const bool all = all_posted(slot, call);
    if (!all && waits_on()) {
      said = slot.decision.load();
      continue;
    }
    if (slot.decision.compare_exchange_strong(said, answer(call, all && all_can(slot)))) {
      missed_ = !all;
      said = slot.decision.load();
    }
  }
  std::optional<Offers> offers;
  if (said & 1) {
    offers.emplace();
    for (int rank = 0; rank < ranks_; ++rank) {
      const Words::Post& of_rank = slot.posts[rank];
      (*offers)[std::size_t(rank)] = unpacked(of_rank.place.load(), of_rank.offset.load());
    }
  }
  words_.known[rank_].store(call + 1);
  return offers;
}

std::uint32_t Consent::put(int index, const RangeHandle& range, std::size_t chunks) {
  Words::Entry& entry = words_.directory[rank_][index];
  const std::uint32_t before = entry.edition.load();
  entry.edition.store(before + 1);
  entry.there.store(1);
  entry.allocation.store(range.allocation);
  entry.chunks.store(chunks);
  for (std::size_t i = 0; i < std::size(entry.handle); ++i) {
    std::uint64_t word = 0;
    std::copy_n(range.handle.bytes + 8 * i, 8, reinterpret_cast<unsigned char*>(&word));
    entry.handle[i].store(word);
  }
  entry.edition.store(before + 2);
  words_.version[rank_].fetch_add(1);
  return before + 2;
}

void Consent::withdraw(int index) {
  Words::Entry& entry = words_.directory[rank_][index];
  const std::uint32_t before = entry.edition.load();
  entry.edition.store(before + 1);
  entry.there.store(0);
  entry.edition.store(before + 2);
  words_.version[rank_].fetch_add(1);
}

Consent::Listed Consent::listed(int rank, int index) const {
  const Words::Entry& entry = words_.directory[rank][index];
  Listed listed;
  const std::uint32_t edition = entry.edition.load();
  if (edition == 0 || edition % 2 == 1 || entry.there.load() == 0) return {};
  listed.range.allocation = entry.allocation.load();
  listed.chunks = entry.chunks.load();
  listed.range.by_descriptor = listed.chunks > 0;
  for (std::size_t i = 0; i < std::size(entry.handle); ++i) {
    const std::uint64_t word = entry.handle[i].load();
    std::copy_n(reinterpret_cast<const unsigned char*>(&word), 8, listed.range.handle.bytes + 8 * i);
  }
  if (entry.edition.load() != edition) return {};
  listed.edition = edition;
  return listed;
}

void Consent::announce(const PostAddress& address) {
  Words::Mailbox& mailbox = words_.mailboxes[rank_];
  for (std::size_t i = 0; i < std::size(mailbox.secret); ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, address.secret.data() + 8 * i, 8);
    mailbox.secret[i].store(word);
  }
  mailbox.name.store(address.name);
}

std::optional<PostAddress> Consent::mailbox(int rank) const {
  const Words::Mailbox& mailbox = words_.mailboxes[rank];
  PostAddress address{};
  address.name = mailbox.name.load();
  if (address.name == 0) return std::nullopt;
  for (std::size_t i = 0; i < std::size(mailbox.secret); ++i) {
    const std::uint64_t word = mailbox.secret[i].load();
    std::memcpy(address.secret.data() + 8 * i, &word, 8);
  }
  return address;
}

}  // namespace busbw::gpu

// How the ranks agree, call by call, that peers read from their own buffers instead of from copies in the scratch: in
// memory that all of them have (the page of ballots.h).
//
// A rank that makes the call writes down where its buffer is. The first one that finds all of them there says yes for
// all, and one that has waited long enough says no for all. Whatever was said first holds: no rank goes its own way,
// and none waits without a bound.
//
//     rank 0     offer  ........ (waits) ........  finds all three: yes
//     rank 1            offer  ... (waits) ..............................  yes
//     rank 2                               offer: finds all three, but the word is out: yes
//
// What a place means stands in a directory: a rank puts allocations in, and its peers write down which they have
// opened.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>

#include "library/gpu/cuda/device.h"
#include "library/gpu/join/descriptor_post.h"
#include "library/gpu/kernels/layout.h"

namespace busbw::gpu {

class Consent {
 public:
  static constexpr int allocations = 64;  // of a rank at a time
  static constexpr std::uint64_t slots = 256;

  // Where a rank's buffer of a call is: an allocation of its directory, and bytes from the start of that.
  struct Offer {
    std::uint32_t allocation = 0;
    std::uint32_t edition = 0;
    std::uint64_t offset = 0;
  };
  using Offers = std::array<Offer, max_ranks>;

  // Of memory that all ranks have, all zero at first.
  struct Words {
    struct Post {
      std::atomic<std::uint64_t> call;  // 1 more than its number, written behind the rest
      std::atomic<std::uint64_t> place;
      std::atomic<std::uint64_t> offset;
    };
    struct Slot {
      std::atomic<std::uint64_t> decision;  // call + 1, and 1 for yes in the lowest bit
      Post posts[max_ranks];
    };
    struct Entry {
      std::atomic<std::uint32_t> edition;  // odd: being written; even: that one, 0 and what follows a withdrawal aside
      std::atomic<std::uint32_t> there;
      std::atomic<std::uint64_t> allocation;  // bytes
      std::atomic<std::uint64_t> chunks;  // allocations of cuMemCreate, whose handles come by post; 0: by the handle
      std::atomic<std::uint64_t> handle[sizeof(MemoryHandle) / 8];
    };
    Slot slots[Consent::slots];
    std::atomic<std::uint64_t> known[max_ranks];  // calls of which this rank knows what was said
    std::atomic<std::uint64_t> over;              // from this call + 1 on all is no; 0 if not
    std::atomic<std::uint32_t> version[max_ranks];
    Entry directory[max_ranks][allocations];
    struct Mailbox {
      std::atomic<std::uint64_t> name;  // written behind the rest; 0: none
      std::atomic<std::uint64_t> secret[sizeof(WatchSecret) / 8];
    };
    Mailbox mailboxes[max_ranks];
    std::atomic<std::uint32_t> opened[max_ranks][max_ranks][allocations];  // by whom, whose: the edition
  };

  Consent(Words& words, int rank, int ranks) : words_(words), rank_(rank), ranks_(ranks) {}
  Consent(const Consent&) = delete;
  Consent& operator=(const Consent&) = delete;

  // The next call, the same on all ranks. `mine`: null where this rank cannot lend. `waits_on` is asked between two
  // looks. What every rank has offered, or nothing if the answer is no. Not thread-safe.
  std::optional<Offers> meet(const std::optional<Offer>& mine, const std::function<bool()>& waits_on);
  // Whether the last answer was no because a rank did not come in time.
  bool missed() const { return missed_; }

  // This rank's part of the directory. put() gives the edition. `chunks`: so many allocations, whose handles follow by
  // post.
  std::uint32_t put(int index, const RangeHandle& range, std::size_t chunks = 0);
  void withdraw(int index);

  // A peer's. The version changes with each entry.
  std::uint32_t version(int rank) const { return words_.version[rank].load(std::memory_order_acquire); }
  struct Listed {
    std::uint32_t edition = 0;  // 0: nothing is there
    RangeHandle range{};
    std::uint64_t chunks = 0;
  };
  Listed listed(int rank, int index) const;
  void say_opened(int rank, int index, std::uint32_t edition) { words_.opened[rank_][rank][index].store(edition); }

  // Where a rank takes descriptors.
  void announce(const PostAddress& address);
  std::optional<PostAddress> mailbox(int rank) const;

 private:
  bool over(std::uint64_t call) const;
  bool all_posted(const Words::Slot& slot, std::uint64_t call) const;
  bool all_can(const Words::Slot& slot) const;

  Words& words_;
  int rank_;
  int ranks_;
  std::uint64_t calls_ = 0;
  bool missed_ = false;
};

}  // namespace busbw::gpu

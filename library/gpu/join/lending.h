// One rank's part of calls in which peers read from its own buffers (consent.h): which of the program's allocations
// they know, and which of theirs are open here.
//
// An allocation is known by its number, which the driver never gives twice, so that other memory at an address that
// came again is not taken for it. What the program frees is given up on all ranks within a fraction of a second, as
// until then the peers' GPUs hold the memory. Where memory runs short, all is given up for good.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "library/gpu/cuda/device.h"
#include "library/gpu/join/consent.h"

namespace busbw::gpu {

class Lending : public std::enable_shared_from_this<Lending> {
 public:
  // `talks`: a line at the end says how many calls went so.
  Lending(std::shared_ptr<Device> device, Consent& consent, int rank, int ranks, bool talks);
  ~Lending();
  Lending(const Lending&) = delete;
  Lending& operator=(const Lending&) = delete;

  // How long a host waits for the others' hosts. The call cannot end without them anyway. Tests change it.
  static inline std::chrono::microseconds longest_wait{5000};

  // Where the peers' buffers of this call are for this rank's GPU; the own one too.
  using Addresses = std::array<const unsigned char*, max_ranks>;
  // Of the next call that could go so, the same on all ranks. `able`: false where this rank cannot take part. Nothing
  // where one cannot; otherwise issued() follows when the copies are in the stream.
  std::optional<Addresses> of_call(const void* send, std::size_t bytes, bool able);
  void issued(DeviceStream stream);

  // Gives up what the program has freed, and what peers have given up. From any thread, again and again.
  void look_after();
  // All of it, at the end.
  void close() noexcept;

 private:
  struct Own {
    std::uint64_t number = 0;  // of the allocation; 0: none is here
    const unsigned char* begin = nullptr;
    std::uint64_t bytes = 0;
    std::uint32_t edition = 0;
    Chunks chunks;             // of memory of cuMemCreate; retained as long as they are here
    std::uint64_t unsent = 0;  // a bit for each peer that has not got their handles yet
  };
  struct Opened {
    std::uint32_t edition = 0;  // 0: none
    void* at = nullptr;         // null: it could not be opened
    RangeHandle range{};
  };
  std::optional<Consent::Offer> offer(const void* send, std::size_t bytes);
  std::optional<Consent::Offer> offer_of(std::size_t index, const void* send, std::size_t bytes) const;
  std::optional<Consent::Offer> offer_of_chunks(const void* send, std::size_t bytes);
  void lend(Own& own, std::size_t index, std::uint64_t number, const void* send, std::size_t bytes);
  bool is_there(const Own& own);
  void deliver() noexcept;
  bool deliver(Own& own, std::size_t index, int rank);
  void open_post();
  void take_letters();
  bool open(int rank, int index, const Consent::Listed& listed, Opened& opened);
  void count(bool lent);
  void forget_freed();
  void give_up(Own& own, std::size_t index);
  void catch_up();
  bool catch_up(int rank, int index);  // false: not yet
  bool may_close();

  std::shared_ptr<Device> device_;
  Consent* consent_;  // null from close() on
  int rank_;
  int ranks_;
  std::mutex guard_;
  std::array<Own, Consent::allocations> own_;
  std::array<std::array<Opened, Consent::allocations>, max_ranks> opened_{};
  std::array<std::uint32_t, max_ranks> versions_{};  // that were caught up with
  std::set<std::uint64_t> refused_;                  // allocations that cannot be lent
  std::uint64_t lent_ = 0;                           // bytes
  std::unique_ptr<DescriptorPost> post_;             // from the first memory of cuMemCreate on, own or a peer's
  std::vector<DescriptorPost::Letter> letters_;      // of what has yet to be opened
  bool delivered_ = true;                            // nothing is unsent
  bool short_of_memory_ = false;
  DeviceEvent used_ = nullptr;  // behind the last copies from what is open
  bool issuing_ = false;
  // Ranks whose hosts wait for each other elsewhere must not wait here again and again.
  int misses_ = 0;           // one after the other
  int without_waiting_ = 0;  // so many of the next calls
  int pause_ = least_pause;  // calls without waiting after the next misses
  static constexpr int least_pause = 64;
  bool talks_;
  std::uint64_t calls_ = 0, lent_calls_ = 0, late_ = 0;
};

}  // namespace busbw::gpu

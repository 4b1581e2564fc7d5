// The recording of this process: a file that other processes read while it is written, and that outlives us.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "library/common/process.h"
#include "library/record/layout.h"
#include "library/record/overtaken.h"

namespace busbw::record {

struct Settings {
  // Where recordings go; "" for no recording.
  std::string folder;
  // How many calls the ring holds: a power of two.
  std::uint64_t calls = 1 << 20;
  // As many as calls can name: only what is used has memory behind it.
  std::uint32_t communicators = 0xffff;
  // Every how many calls of a communicator one is timed on the GPU: 1 for all, 0 for none.
  std::uint32_t times_every = 0;

  // BUSBW_RECORD_DIR, BUSBW_RECORD_CALLS, BUSBW_RECORD_TIMES. Throws a Failure for what cannot be read.
  static Settings from_environment();
};

// In place of a root: there is none; there is none, and what is sent lies where what is received comes.
constexpr std::int64_t no_root = -1, in_place = -2;

// A call as its caller gave it.
struct Given {
  Kind kind = Kind::none;
  std::uint64_t count = 0;
  std::uint32_t type = 0;
  std::uint32_t op = 0;
  // no_root, or in_place, for collectives without a root.
  std::int64_t root = no_root;
  const void* stream = nullptr;
  std::uint8_t flags = 0;
  std::uint16_t group = 0;
  // Run by the launch of a graph.
  bool launched = false;
};

// A call that has begun. Without a place in the ring it counts on its communicator only.
struct Ticket {
  Call* call = nullptr;
  Communicator* on = nullptr;
  // From 1 on: of this process, and as Call's sequence.
  std::uint64_t number = 0;
  std::uint64_t sequence = 0;
  std::uint32_t stamp = 0;
  std::uint64_t how = 0;
  std::uint64_t begun_ns = 0;
  // When the communicator's call before it began; 0 where there was none.
  std::uint64_t before_ns = 0;
};

class Recording {
 public:
  // Makes the file. Throws a Failure with the reason if it cannot be made.
  explicit Recording(const Settings& settings);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  Header& header() { return *header_; }
  const std::string& path() const { return path_; }

  // A new row; null where the table is full.
  Communicator* add();
  // From any thread.
  Ticket begin(Communicator* on, const Given& given) { return begin(on, given, now_ns()); }
  Ticket begin(Communicator* on, const Given& given, std::uint64_t now);
  // `result` is NCCL's; a call inside a group has come back when its group has.
  void end(const Ticket& ticket, int result, bool counts_as_returned) {
    end(ticket, result, counts_as_returned, now_ns());
  }
  void end(const Ticket& ticket, int result, bool counts_as_returned, std::uint64_t now);
  // Of a call that was never made: its numbers are the next one's.
  static void take_back(const Ticket& ticket);
  static void count_as_returned(Communicator* on, std::uint64_t calls, std::uint64_t now_ns);

  // One writer at a time.
  void time(const Ticket& ticket, std::uint64_t begun_ns, std::uint64_t took_ns, bool in_group);
  void miss_time() { header_->times_missed.fetch_add(1, std::memory_order_relaxed); }
  std::uint64_t start_ns() const { return start_ns_; }
  // As in the header.
  std::uint32_t times_every() const { return times_every_; }

  // By this thread's clock.
  static std::uint64_t now_ns();
  // Places of a row: 0xffff for none.
  std::uint16_t place_of(const Communicator* on) const { return on ? std::uint16_t(on - communicators_) : 0xffff; }

 private:
  void make_file(const std::string& folder, const ProcessIdentity& who);
  void lengthen(std::uint64_t bytes, std::uint64_t with_memory);
  [[noreturn]] void give_up(int error, const char* why);
  Call* place(std::uint64_t number);
  Call* taken(Call* call, std::uint64_t number);
  bool back_up_to(std::uint64_t number);
  bool back_times_up_to(std::uint64_t place);
  bool back(std::uint64_t at, std::uint64_t bytes);
  static void let_go(void* entries, std::uint64_t place, std::uint64_t room);

  // What each call looks at, in one line of the caches.
  alignas(64) Header* header_ = nullptr;
  Communicator* communicators_ = nullptr;
  Call* calls_ = nullptr;
  std::uint64_t mask_ = 0;
  std::uint64_t start_ns_ = 0;
  // As in the header.
  std::atomic<std::uint64_t> backed_{0};
  std::uint32_t times_every_ = 0;
  std::atomic<bool> full_{false};

  Time* times_ = nullptr;
  std::uint64_t times_backed_ = 0;
  // Bytes from the start of the file on that have memory behind them: the header and a part of the table.
  std::uint64_t table_backed_ = 0;
  Overtaken overtaken_;
  std::mutex guard_;
  std::string path_;
  int file_ = -1;
  // What file_ was when it was opened.
  std::uint64_t file_device_ = 0, file_number_ = 0;
};

// The recording of this process, made at the first call of this function; null where there is none. After a fork the
// child has one of its own.
Recording* recording();

// 11 bits of value and 5 of exponent: up to 2^42 ticks within one in 1,024.
inline std::uint16_t packed_duration(std::uint64_t ticks) {
  std::uint32_t exponent = 0;
  while (ticks >= 2048 && exponent < 31) {
    ticks = (ticks + 1) / 2;
    ++exponent;
  }
  if (ticks > 2047) ticks = 2047;
  return std::uint16_t(exponent << 11 | ticks);
}
// Equal handles give equal numbers; of unlike ones, one pair in 65,536 does too.
inline std::uint16_t folded(const void* handle) {
  const auto bits = reinterpret_cast<std::uintptr_t>(handle);
  // Small numbers are names of their own (the legacy and the per-thread stream).
  if (bits < 0x10000) return std::uint16_t(bits);
  return std::uint16_t((bits * 0x9e3779b97f4a7c15ull) >> 48);
}

}  // namespace busbw::record

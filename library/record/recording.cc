// Writes a recording. Room for the ring comes a mebibyte at a time, so that a short run takes little, and a full disk
// loses calls instead of the program.
#include "library/record/recording.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "library/common/descriptor.h"
#include "library/common/failure.h"
#include "library/common/process.h"
#include "library/record/cut_off.h"
#include "library/record/this_thread.h"

namespace busbw::record {
namespace {

constexpr std::uint64_t chunk_bytes = 1 << 20;
constexpr int max_programs = 1000;
constexpr std::uint64_t first_bytes = 4096;
// Times of a sample; of all calls as many as calls.
constexpr std::uint64_t sampled_times = 1 << 16;
constexpr std::uint64_t entry_bytes = 32;
static_assert(sizeof(Call) == entry_bytes && sizeof(Time) == entry_bytes);
constexpr std::uint64_t entries_of_chunk = chunk_bytes / entry_bytes;
// Taken into memory together: 64 KiB.
constexpr std::uint64_t entries_at_once = 1 << 11;
// A ring of more than so many entries (8 MiB) keeps the newest 4 MiB in the program's memory; the file has all of them.
constexpr std::uint64_t small_ring = 1 << 18;
constexpr std::uint64_t entries_in_memory = 1 << 17;

std::uint64_t clock_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return std::uint64_t(now.tv_sec) * 1'000'000'000 + std::uint64_t(now.tv_nsec);
}

int launched_rank() {
  for (const char* name : {"RANK", "BUSBW_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    if (const char* rank = std::getenv(name); rank && *rank) return int(std::strtol(rank, nullptr, 10));
  }
  return -1;
}

[[noreturn]] void fail(const std::string& what) { throw Failure(ncclSystemError, what + ": " + std::strerror(errno)); }

std::atomic<Recording*> of_this_process{nullptr};
std::atomic<bool> tried{false};
std::mutex making;

void forget_in_child() {
  // The parent's file is the parent's. Its mapping stays: calls of other threads do not come along.
  of_this_process.store(nullptr);
  tried.store(false);
  // What this thread found last is the parent's too.
  edition.fetch_add(1);
  new (&making) std::mutex;
}

void end_in_order() {
  if (Recording* recording = of_this_process.load()) recording->header().ended.store(1, std::memory_order_release);
}

Recording* make() {
  try {
    const Settings settings = Settings::from_environment();
    if (settings.folder.empty()) return nullptr;
    static const int once = [] {
      ::pthread_atfork(nullptr, nullptr, forget_in_child);
      return std::atexit(end_in_order);
    }();
    (void)once;
    // Never destroyed: threads may call while the process exits.
    return new Recording(settings);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "busbw: nothing is recorded: %s\n", error.what());
    return nullptr;
  }
}

// These pages as by a write, at once: that takes less than each by its first call, as kernels before 5.14 have it.
void take_in(void* entries, std::size_t bytes) {
  constexpr int populate_write = 23;
  const int before = errno;
  ::madvise(entries, bytes, populate_write);
  errno = before;
}

}  // namespace

Settings Settings::from_environment() {
  Settings settings;
  if (const char* folder = std::getenv("BUSBW_RECORD_DIR")) settings.folder = folder;
  if (const char* calls = std::getenv("BUSBW_RECORD_CALLS"); calls && *calls) {
    char* end = nullptr;
    const unsigned long long asked = std::strtoull(calls, &end, 10);
    if (*end != '\0' || *calls == '-' || asked < 1024 || asked > (1ull << 32))
      throw Failure(ncclInvalidUsage,
                    text("BUSBW_RECORD_CALLS is '%s'; it takes a number of calls from 1024 on.", calls));
    settings.calls = 1024;
    while (settings.calls < asked) settings.calls *= 2;
  }
  if (const char* times = std::getenv("BUSBW_RECORD_TIMES"); times && *times) {
    char* end = nullptr;
    const std::string word = times;
    const unsigned long long every = word == "all" ? 1 : word == "none" ? 0 : std::strtoull(times, &end, 10);
    if ((end && (*end != '\0' || *times == '-')) || every > 1'000'000'000)
      throw Failure(ncclInvalidUsage,
                    text("BUSBW_RECORD_TIMES is '%s'; it takes all, none, or a number: one call of so many.", times));
    settings.times_every = std::uint32_t(every);
  }
  return settings;
}

std::uint64_t Recording::now_ns() { return this_thread.clock.now(); }

// Nobody else reads it, and what lies there is not followed. A program that this process was before exec has its own.
void Recording::make_file(const std::string& folder, const ProcessIdentity& who) {
  const std::string name = text("%s/%s-%d-%llu", folder.c_str(), host_name().c_str(), int(who.pid),
                                static_cast<unsigned long long>(who.start_time));
  path_ = name + ".busbwrec";
  for (int turn = 2;; ++turn) {
    file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file_ >= 0 || errno != EEXIST || turn > max_programs) break;
    path_ = name + text("-%d.busbwrec", turn);
  }
  if (file_ < 0) fail(path_ + " cannot be made");
  struct stat made{};
  if (::fstat(file_, &made) == 0) file_device_ = made.st_dev, file_number_ = made.st_ino;
}

// So many bytes, the first of them with memory behind them.
void Recording::lengthen(std::uint64_t bytes, std::uint64_t with_memory) {
  if (!may_be_so_long(bytes)) give_up(EFBIG, " cannot be made so long");
  if (::ftruncate(file_, off_t(bytes)) != 0) give_up(errno, " cannot be made so long");
  // A hole that cannot be filled would end the program with SIGBUS.
  if (const int error = ::posix_fallocate(file_, 0, off_t(with_memory)); error != 0) give_up(error, " has no room");
}

// Nobody is to find half a recording, and the descriptor is the program's again.
void Recording::give_up(int error, const char* why) {
  ::unlink(path_.c_str());
  ::close(file_);
  errno = error;
  fail(path_ + why);
}

Recording::Recording(const Settings& settings) {
  const ProcessIdentity who = this_process();
  const std::uint64_t calls_at =
      (header_bytes + settings.communicators * sizeof(Communicator) + chunk_bytes - 1) / chunk_bytes * chunk_bytes;
  const std::uint64_t times_at = calls_at + settings.calls * sizeof(Call);
  const std::uint64_t times = settings.times_every == 0   ? 0
                              : settings.times_every == 1 ? settings.calls
                                                          : std::min(settings.calls, sampled_times);
  const std::uint64_t bytes = times_at + times * sizeof(Time);
  make_file(settings.folder, who);
  lengthen(bytes, table_backed_ = std::min(calls_at, chunk_bytes));
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (memory == MAP_FAILED) give_up(errno, " cannot be mapped");
  auto* base = static_cast<unsigned char*>(memory);
  header_ = reinterpret_cast<Header*>(base);
  communicators_ = reinterpret_cast<Communicator*>(base + header_bytes);
  calls_ = reinterpret_cast<Call*>(base + calls_at);
  times_ = reinterpret_cast<Time*>(base + times_at);
  mask_ = settings.calls - 1;
  start_ns_ = kernel_ns();
  header_->version = version;
  header_->header_bytes = header_bytes;
  header_->communicator_bytes = sizeof(Communicator);
  header_->communicator_capacity = settings.communicators;
  header_->call_bytes = sizeof(Call);
  header_->tick_ns = tick_ns;
  header_->call_capacity = settings.calls;
  header_->communicators_at = header_bytes;
  header_->calls_at = calls_at;
  header_->file_bytes = bytes;
  header_->times_at = times ? times_at : 0;
  header_->time_capacity = times;
  header_->times_every = times_every_ = settings.times_every;
  header_->pid = std::uint32_t(who.pid);
  header_->uid = who.uid;
  header_->process_start = who.start_time;
  header_->boot_id = boot_id();
  header_->pid_namespace = who.pid_namespace;
  header_->realtime_ns = clock_ns(CLOCK_REALTIME);
  header_->monotonic_ns = start_ns_;
  header_->launched_rank = launched_rank();
  header_->mapped_at = std::uint64_t(reinterpret_cast<std::uintptr_t>(memory));
  // Not within the program's calls: a file system that reads ahead takes milliseconds for the first page.
  if (back_up_to(0)) take_in(calls_, first_bytes);
  if (times && back_times_up_to(0)) take_in(times_, first_bytes);
  std::snprintf(header_->host, sizeof header_->host, "%s", host_name().c_str());
  // Last: a reader that sees it may read the rest.
  std::atomic_thread_fence(std::memory_order_release);
  std::memcpy(header_->magic, magic, sizeof magic);
  outlive_truncation(header_, bytes);
}

Recording::~Recording() {
  if (header_) ::munmap(header_, header_->file_bytes);
  if (file_ >= 0) ::close(file_);
}

Communicator* Recording::add() {
  const std::uint64_t place = header_->communicators.load(std::memory_order_relaxed);
  const bool has_row = place < header_->communicator_capacity;
  if (has_row && header_bytes + (place + 1) * sizeof(Communicator) > table_backed_) {
    const std::uint64_t more = std::min(chunk_bytes, header_->calls_at - table_backed_);
    if (back(table_backed_, more)) table_backed_ += more;
  }
  if (!has_row || header_bytes + (place + 1) * sizeof(Communicator) > table_backed_) {
    header_->communicators_lost.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }
  header_->communicators.store(place + 1, std::memory_order_release);
  return communicators_ + place;
}

bool Recording::back_up_to(std::uint64_t number) {
  const std::lock_guard lock(guard_);
  while (!full_.load(std::memory_order_relaxed)) {
    const std::uint64_t backed = backed_.load(std::memory_order_relaxed);
    if (number < backed) return true;
    const std::uint64_t at = header_->calls_at + backed * sizeof(Call);
    const std::uint64_t bytes = std::min(chunk_bytes, header_->calls_at + (mask_ + 1) * sizeof(Call) - at);
    if (!back(at, bytes)) {
      full_.store(true, std::memory_order_relaxed);
      return false;
    }
    header_->backed.store(backed + bytes / sizeof(Call), std::memory_order_release);
    backed_.store(backed + bytes / sizeof(Call), std::memory_order_release);
  }
  return number < backed_.load(std::memory_order_relaxed);
}

// A program that closes all descriptors closes ours too, and its own file may have the number now.
bool Recording::back(std::uint64_t at, std::uint64_t bytes) {
  const auto is_ours = [this](int file) {
    struct stat now{};
    return ::fstat(file, &now) == 0 && now.st_dev == file_device_ && now.st_ino == file_number_;
  };
  if (was_cut_off()) return false;
  const bool is_here = is_ours(file_);
  const int file = is_here ? file_ : ::open(path_.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  const bool backed = file >= 0 && is_ours(file) && ::posix_fallocate(file, off_t(at), off_t(bytes)) == 0;
  if (file >= 0 && !is_here) ::close(file);
  return backed;
}

// Before the first entry of a chunk is written, the one that was written longest ago leaves the memory, not the file.
void Recording::let_go(void* entries, std::uint64_t place, std::uint64_t room) {
  if (room <= small_ring) return;
  const std::uint64_t oldest = (place + room - entries_in_memory) % room;
  ::madvise(static_cast<unsigned char*>(entries) + oldest * entry_bytes, chunk_bytes, MADV_DONTNEED);
}

Call* Recording::place(std::uint64_t number) {
  const std::uint64_t place = number & mask_;
  if (place >= backed_.load(std::memory_order_relaxed) &&
      (full_.load(std::memory_order_relaxed) || !back_up_to(place))) {
    header_->lost.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }
  if (place % entries_at_once == 0) {
    if (place % entries_of_chunk == 0) let_go(calls_, place, mask_ + 1);
    take_in(calls_ + place, std::min(entries_at_once, mask_ + 1) * entry_bytes);
  }
  return calls_ + place;
}

// Null where a thread that is a whole ring behind still writes there.
Call* Recording::taken(Call* call, std::uint64_t number) {
  if (overtaken_.may_take(*call, number, mask_ + 1)) return call;
  header_->overtaken.fetch_add(1, std::memory_order_relaxed);
  return nullptr;
}

Ticket Recording::begin(Communicator* on, const Given& given, std::uint64_t now) {
  Ticket ticket;
  ticket.on = on;
  // Clocks of two threads may differ by a part of a microsecond.
  ticket.begun_ns = now = std::max(now, start_ns_);
  std::uint64_t sequence = 0;
  const std::uint64_t root = std::uint64_t(given.root) & 0xfffff;
  ticket.how = (std::uint64_t(given.kind) & 0x1f) | (given.launched ? how_launched : 0) |
               std::uint64_t(given.type > 15 ? 15 : given.type) << 6 |
               std::uint64_t(given.op > 4 ? 7 : given.op) << 10 | (std::uint64_t(given.flags) & 7) << 13 | root << 16 |
               (std::uint64_t(given.group) & 0xfff) << 36;
  const std::uint64_t what = (given.count & 0xffffffffffff) | std::uint64_t(place_of(on)) << 48;
  if (on) {
    const std::uint64_t before = on->entered.fetch_add(1, std::memory_order_relaxed);
    sequence = is_collective(given.kind) ? on->collectives.fetch_add(1, std::memory_order_relaxed) + 1
                                         : before - on->collectives.load(std::memory_order_relaxed) + 1;
    on->last_what.store(what, std::memory_order_relaxed);
    on->last_how.store(ticket.how, std::memory_order_relaxed);
    ticket.before_ns = on->entered_ns.load(std::memory_order_relaxed);
    on->entered_ns.store(ticket.begun_ns, std::memory_order_release);
  }
  ticket.sequence = sequence;
  const std::uint64_t number = header_->calls.fetch_add(1, std::memory_order_relaxed);
  ticket.number = number + 1;
  Call* call = place(number);
  if (call && number > mask_ && !has_ended(*call, number - mask_ - 1)) call = taken(call, number);
  if (!call) return ticket;
  ticket.call = call;
  ticket.stamp = std::uint32_t(number + 1);
  // Whoever reads the old call now sees that it goes.
  call->stamp.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  call->sequence = std::uint32_t(sequence);
  call->what = what;
  call->when = ((ticket.begun_ns - start_ns_) / tick_ns & 0xffffffffffff) | std::uint64_t(folded(given.stream)) << 48;
  call->how.store(ticket.how, std::memory_order_relaxed);
  call->stamp.store(ticket.stamp, std::memory_order_release);
  // A later call writes there. What is not in memory yet is left alone.
  __builtin_prefetch(call + 4, 1);
  return ticket;
}

void Recording::end(const Ticket& ticket, int result, bool counts_as_returned, std::uint64_t now) {
  const bool failed = is_failure(result);
  if (ticket.call) {
    const std::uint64_t how =
        ticket.how | (failed ? std::uint64_t(flag_failed) << 13 : 0) |
        std::uint64_t(packed_duration((std::max(now, ticket.begun_ns) - ticket.begun_ns) / tick_ns + 1))
            << how_duration_at;
    // Of a file that was cut off the stamp is gone. From here on the place is the next call's.
    if (ticket.call->stamp.load(std::memory_order_relaxed) == ticket.stamp)
      ticket.call->how.store(how, std::memory_order_release);
  }
  if (!ticket.on) return;
  if (failed) ticket.on->last_error = result;
  if (counts_as_returned) count_as_returned(ticket.on, 1, now);
}

void Recording::take_back(const Ticket& ticket) {
  // The call has ended: where another has its place meanwhile, `how` is another one too.
  std::uint64_t how = ticket.call ? ticket.call->how.load(std::memory_order_acquire) : 0;
  if (ticket.call && ticket.call->stamp.load(std::memory_order_acquire) == ticket.stamp)
    ticket.call->how.compare_exchange_strong(how, how | std::uint64_t(flag_failed) << 13, std::memory_order_relaxed);
  if (!ticket.on) return;
  if (is_collective(Kind(ticket.how & 0x1f))) ticket.on->collectives.fetch_sub(1, std::memory_order_relaxed);
  ticket.on->entered.fetch_sub(1, std::memory_order_relaxed);
}

void Recording::count_as_returned(Communicator* on, std::uint64_t calls, std::uint64_t now_ns) {
  if (!on) return;
  on->returned_ns.store(now_ns, std::memory_order_relaxed);
  on->returned.fetch_add(calls, std::memory_order_release);
}

bool Recording::back_times_up_to(std::uint64_t place) {
  while (times_backed_ <= place) {
    const std::uint64_t at = header_->times_at + times_backed_ * sizeof(Time);
    const std::uint64_t bytes = std::min(chunk_bytes, header_->file_bytes - at);
    if (!back(at, bytes)) return false;
    times_backed_ += bytes / sizeof(Time);
  }
  return true;
}

void Recording::time(const Ticket& ticket, std::uint64_t begun_ns, std::uint64_t took_ns, bool in_group) {
  if (header_->time_capacity == 0) return;
  const std::uint64_t number = header_->times.load(std::memory_order_relaxed);
  const std::uint64_t place = number & (header_->time_capacity - 1);
  if (!back_times_up_to(place)) return miss_time();
  if (place % entries_of_chunk == 0) let_go(times_, place, header_->time_capacity);
  Time& time = times_[place];
  time.number.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  time.begun_ns = begun_ns > start_ns_ ? begun_ns - start_ns_ : 0;
  time.what = (took_ns & 0xffffffffffff) | std::uint64_t(place_of(ticket.on)) << 48;
  time.sequence = std::uint32_t(ticket.sequence);
  time.flags = in_group ? 1 : 0;
  time.number.store(ticket.number, std::memory_order_release);
  header_->times.store(number + 1, std::memory_order_release);
}

Recording* recording() {
  if (Recording* made = of_this_process.load(std::memory_order_acquire)) return made;
  if (tried.load(std::memory_order_acquire)) return nullptr;
  const std::lock_guard lock(making);
  if (!tried.load()) {
    of_this_process.store(make(), std::memory_order_release);
    tried.store(true, std::memory_order_release);
  }
  return of_this_process.load(std::memory_order_acquire);
}

}  // namespace busbw::record

// Meets the other ranks in the segment that the unique id names.
#include "library/cpu/bootstrap.h"

#include <unistd.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <functional>
#include <thread>

#include "library/common/failure.h"
#include "library/cpu/settings.h"

namespace busbw::cpu {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t id_magic = 0x64692d7762737562;  // "busbw-id"

// Removes the segment's name when the meeting fails: nobody can use it any more, and nothing must stay behind.
class NameGuard {
 public:
  explicit NameGuard(std::string name) : name_(std::move(name)) {}
  ~NameGuard() {
    if (!name_.empty()) SharedSegment::unlink(name_);
  }
  void dismiss() { name_.clear(); }

 private:
  std::string name_;
};

void take_place(SharedSegment& segment, int rank) {
  RankRecord& record = segment.record(rank);
  Attendance expected = Attendance::absent;
  if (!record.attendance.compare_exchange_strong(expected, Attendance::arriving)) {
    const std::string sentence = text("Two ranks call themselves rank %d of one communicator.", rank);
    announce_failure(segment.header(), ncclInvalidUsage, sentence);
    throw Failure(ncclInvalidUsage, sentence);
  }
  record.process = this_process();
  record.cpus = cpus_of_this_thread();
  record.attendance.store(Attendance::present, std::memory_order_release);
}

std::string missing_ranks(SharedSegment& segment) {
  std::string list;
  int missing = 0;
  for (int rank = 0; rank < segment.layout().ranks; ++rank) {
    if (segment.record(rank).attendance.load() >= Attendance::present) continue;
    if (++missing <= 8) list += (list.empty() ? "" : ", ") + std::to_string(rank);
  }
  if (missing > 8) list += text(" and %d more", missing - 8);
  return (missing == 1 ? "rank " : "ranks ") + list;
}

bool is_complete(SharedSegment& segment) {
  for (int rank = 0; rank < segment.layout().ranks; ++rank) {
    if (segment.record(rank).attendance.load(std::memory_order_acquire) < Attendance::present) return false;
  }
  return true;
}

void look_for_trouble(SharedSegment& segment, double limit, Clock::time_point begin) {
  const SegmentHeader& header = segment.header();
  if (const auto code = header.failure.load(std::memory_order_acquire); code != 0) {
    throw Failure(ncclResult_t(code), header.failure_text);
  }
  for (int rank = 0; rank < segment.layout().ranks; ++rank) {
    const RankRecord& record = segment.record(rank);
    if (record.attendance.load(std::memory_order_acquire) < Attendance::present) continue;
    if (life_of(record.process) != Life::ended) continue;
    // A rank whose communicator lives for a moment only may have met all and gone while this one slept.
    if (is_complete(segment)) return;
    const std::string sentence = text("Rank %d (pid %d on %s) ended while the communicator was being made.", rank,
                                      record.process.pid, host_name().c_str());
    announce_failure(segment.header(), ncclRemoteError, sentence);
    throw Failure(ncclRemoteError, sentence);
  }
  if (Clock::now() - begin < std::chrono::duration<double>(limit)) return;
  const std::string sentence = text("The communicator is not complete after %g s (BUSBW_CPU_TIMEOUT): %s did not come.",
                                    limit, missing_ranks(segment).c_str());
  announce_failure(segment.header(), ncclTimeout, sentence);
  throw Failure(ncclTimeout, sentence);
}

// From then on rank 0 gives the segment a name where a rank asks for one: see SharedSegment::serve. Ranks that are only
// late never do so for long.
constexpr std::chrono::seconds at_door{1};

void await_everyone(SharedSegment& segment, const std::string& name, bool serves, double limit) {
  const auto begin = Clock::now();
  bool named = !serves;
  auto next_look = begin + std::chrono::milliseconds(50);
  while (!is_complete(segment)) {
    if (serves) segment.serve(name);
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    if (Clock::now() < next_look) continue;
    if (!named && Clock::now() - begin > at_door && SharedSegment::name_is_wished(name)) {
      segment.give_name(name);
      named = true;
    }
    look_for_trouble(segment, limit, begin);
    next_look = Clock::now() + std::chrono::milliseconds(50);
  }
}

int count_processors(SharedSegment& segment) {
  CpuSet all;
  CPU_ZERO(&all);
  for (int rank = 0; rank < segment.layout().ranks; ++rank) CPU_OR(&all, &all, &segment.record(rank).cpus);
  return CPU_COUNT(&all);
}

}  // namespace

UniqueId UniqueId::make() {
  UniqueId id{};
  id.magic = id_magic;
  id.version = segment_version;
  id.uid = ::geteuid();
  id.boot_id = busbw::boot_id();
  fill_random(id.name, sizeof id.name);
  return id;
}

UniqueId UniqueId::from(const ncclUniqueId& id) {
  UniqueId result;
  std::memcpy(&result, &id, sizeof result);
  return result;
}

ncclUniqueId UniqueId::to_nccl() const {
  ncclUniqueId result;
  std::memcpy(&result, this, sizeof result);
  return result;
}

void UniqueId::check() const {
  if (magic != id_magic) {
    throw Failure(ncclInvalidArgument, "The ncclUniqueId was not made by busbw's CPU library (ncclGetUniqueId).");
  }
  if (version != segment_version) {
    throw Failure(ncclInvalidUsage, "The ncclUniqueId was made by another version of busbw's CPU library.");
  }
  if (uid != ::geteuid()) {
    throw Failure(ncclInvalidUsage,
                  text("The ncclUniqueId was made by user %u; this process runs as user %u.", uid, ::geteuid()));
  }
  // 0: /proc does not tell, or no file may be opened any more; the shared memory is then found, or not.
  if (const std::uint64_t here = busbw::boot_id(); here != 0 && boot_id != 0 && here != boot_id) {
    throw Failure(ncclInvalidUsage, text("The ncclUniqueId was made on another host than %s; busbw's CPU library works "
                                         "within one host.",
                                         host_name().c_str()));
  }
}

std::string UniqueId::segment_name() const {
  std::string result = "/busbw-cpu-";
  for (const unsigned char byte : name) result += text("%02x", byte);
  return result;
}

namespace {

Meeting meet_at(const std::string& name, int ranks, int rank) {
  const Settings settings = Settings::from_environment();
  NameGuard guard(name);
  Meeting meeting;
  meeting.timeout_seconds = settings.timeout_seconds;
  meeting.stores = settings.stores;
  meeting.segment =
      rank == 0 ? SharedSegment::create(name, ranks) : SharedSegment::attach(name, ranks, settings.timeout_seconds);
  SharedSegment& segment = *meeting.segment;
  take_place(segment, rank);
  // The name has done its work as soon as everyone is in.
  if (segment.header().attached.fetch_add(1) + 1 == std::uint32_t(ranks)) SharedSegment::unlink(name);
  await_everyone(segment, name, rank == 0, settings.timeout_seconds);
  if (rank == 0) segment.close_door();
  guard.dismiss();
  meeting.processors = count_processors(segment);
  return meeting;
}

}  // namespace

Meeting meet(const UniqueId& id, int ranks, int rank) {
  const std::string name = id.segment_name();
  try {
    id.check();
    return meet_at(name, ranks, rank);
  } catch (const Failure& failure) {
    // A second rank 0 is not the one that the others wait for.
    if (rank == 0 && failure.code() != ncclInvalidUsage) SharedSegment::give_up(name, failure);
    throw;
  } catch (...) {  // mostly std::bad_alloc
    if (rank == 0) SharedSegment::give_up_without_memory(name);
    throw;
  }
}

}  // namespace busbw::cpu

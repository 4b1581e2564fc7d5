// A communicator's life, and the exchange of header lines.
#include "library/cpu/communicator.h"

#include "library/common/failure.h"
#include "library/cpu/algorithms.h"
#include "library/cpu/settings.h"

namespace busbw::cpu {
namespace {

// Some 50 us of polling where every rank has a processor of its own, next to nothing where it must make way for a peer.
constexpr int spins_alone = 2000;
constexpr int spins_crowded = 20;

// Longer payloads would take longer to fetch, over and over, than their header takes to arrive.
constexpr std::size_t most_fetched = 512;

// A processor without the instruction takes it for no operation; the compiler's builtin would ask for a shared copy.
inline void own_line_early(const void* line) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

constexpr std::uint64_t flag_of(Epoch epoch, std::uint32_t what) { return std::uint64_t{epoch} << 32 | what; }

}  // namespace

Communicator::Communicator(const UniqueId& id, int ranks, int rank) : rank_(rank), ranks_(ranks) {
  const Meeting meeting = meet(id, ranks, rank);
  segment_ = meeting.segment;
  shared_store = SharedStore(meeting.stores);
  crowded_ = ranks > meeting.processors;
  const WatchOptions options{
      .rank = rank, .spins = crowded_ ? spins_crowded : spins_alone, .limit_seconds = 10 * meeting.timeout_seconds};
  watch_ = std::make_unique<Watch>(segment_, options);
  short_max_bytes_ = segment_->header().short_max_bytes;
  short_before_direct_bytes_ = segment_->header().short_before_direct_bytes;
  sent.resize(std::size_t(ranks));
  received.resize(std::size_t(ranks));
  one_process_ = true;
  for (int peer = 0; peer < ranks; ++peer) {
    const bool same = busbw::same_process(segment_->record(peer).process, this_process());
    same_process_.push_back(same);
    one_process_ = one_process_ && same;
  }
}

Communicator::~Communicator() { segment_->record(rank_).attendance.store(Attendance::left, std::memory_order_release); }

void Communicator::abort(const char* did) {
  watch_->abort(did);
  announce_failure(segment_->header(), ncclRemoteError,
                   text("Rank %d (pid %d on %s) %s the communicator.", rank_, segment_->record(rank_).process.pid,
                        host_name().c_str(), did));
}

void Communicator::run(const Collective& call) {
  watch_->check();
  const std::size_t bytes = send_elements(call, ranks_) * element_size(call.type);
  if (bytes <= short_limit(short_max_bytes_, short_before_direct_bytes_, call.kind, one_process_, crowded_))
    return run_short(*this, call, bytes);
  if (use_direct(*this, call) && run_direct(*this, call)) return;
  run_staged(*this, call);
}

void Communicator::publish(const Collective& call, std::size_t payload_bytes) {
  ++published_;
  HeaderLine& line = segment_->line(rank_, published_);
  line.count = call.count;
  line.scalar = call.scalar;
  line.flag.store(flag_of(published_, describe(call)), std::memory_order_release);
  // Its readers have been done with the next slot for long; taking it back from their caches now, while this rank waits
  // anyway, spares the next call one of its two trips across the machine.
  const auto* next = reinterpret_cast<const unsigned char*>(&segment_->line(rank_, next_epoch()));
  const std::size_t lines_bytes = sizeof(HeaderLine) + (payload_bytes <= most_fetched ? payload_bytes : 0);
  for (std::size_t at = 0; at < lines_bytes; at += 64) own_line_early(next + at);
}

void Communicator::await(const Collective& call, Epoch epoch, std::size_t payload_bytes) {
  const std::uint32_t what = describe(call);
  const auto arrived = [&](int peer) {
    return Epoch(segment_->line(peer, epoch).flag.load(std::memory_order_acquire) >> 32) == epoch;
  };
  const std::size_t fetched = payload_bytes <= most_fetched ? payload_bytes : 0;
  for (int peer = 0; peer < ranks_; ++peer) {
    if (peer == rank_) continue;
    const unsigned char* payload = segment_->slot(peer, epoch);
    const auto look = [&] {
      // The payload was written before the header: its lines can cross the machine at the same time as the header's.
      for (std::size_t at = 0; at < fetched; at += 64) __builtin_prefetch(payload + at);
      return arrived(peer);
    };
    watch_->wait(look, [&](int rank) { return !arrived(rank); });
    const HeaderLine& line = segment_->line(peer, epoch);
    const auto theirs = std::uint32_t(line.flag.load(std::memory_order_relaxed));
    if (theirs != what || line.count != call.count) [[unlikely]] {
      fail_mismatch(call, peer, theirs, line.count);
    }
  }
}

void Communicator::fail_mismatch(const Collective& call, int peer, std::uint32_t what, std::size_t count) {
  const std::string sentence =
      text("Ranks called different collectives at the same time: rank %d %s, rank %d %s.", rank_,
           spelled(describe(call), call.count).c_str(), peer, spelled(what, count).c_str());
  announce_failure(segment_->header(), ncclInvalidUsage, sentence);
  throw Failure(ncclInvalidUsage, sentence);
}

}  // namespace busbw::cpu

// Point-to-point messages through one ring of entries per ordered pair of ranks.
//
// A message takes one entry per piece of at most ring_bytes, or a single entry that names the sender's buffer where the
// receiver shares its address space. The receiver counts the entries it has consumed; that count is the sender's
// credit.
#include "library/cpu/transfer.h"

#include <algorithm>
#include <cstring>

#include "library/common/failure.h"
#include "library/cpu/communicator.h"
#include "library/cpu/copy.h"

namespace busbw::cpu {
namespace {

// Below this a copy into the ring, which lets the sender go on at once, is cheaper than waiting for the receiver.
constexpr std::size_t by_reference_min = 16 << 10;

struct alignas(64) EntryLine {
  // Sequence number + 1 of the entry that is here; stored last.
  std::atomic<std::uint32_t> filled;
  // Of the whole message, in every one of its entries.
  std::uint64_t message_bytes;
  // Null: the payload follows this line.
  const unsigned char* reference;
};

struct Ring {
  std::atomic<std::uint32_t>& consumed;
  SharedSegment& segment;
  int from, to;

  static Ring between(SharedSegment& segment, int from, int to) {
    return {*segment.at<std::atomic<std::uint32_t>>(segment.layout().ring_offset(from, to)), segment, from, to};
  }
  EntryLine& line(std::uint32_t sequence) const {
    return *segment.at<EntryLine>(segment.layout().entry_offset(from, to, sequence));
  }
  unsigned char* payload(std::uint32_t sequence) const {
    return segment.bytes(segment.layout().entry_offset(from, to, sequence) + sizeof(EntryLine));
  }
};

class Batch {
 public:
  Batch(Communicator& comm, std::vector<Transfer>& transfers) : comm_(comm), transfers_(transfers) {}

  void run() {
    copy_to_self();
    bool finished = false;
    const auto move_on = [&] {
      progressed_ = false;
      finished = step();
      return finished || progressed_;
    };
    // Every progress begins a new wait, with its spins and its limit.
    while (!finished) comm_.watch().wait(move_on, [&](int rank) { return needs(rank); });
  }

 private:
  void copy_to_self() {
    auto receive = transfers_.begin();
    for (Transfer& send : transfers_) {
      if (send.peer != comm_.rank() || send.direction != Direction::send) continue;
      receive = std::find_if(receive, transfers_.end(), [&](const Transfer& other) {
        return other.peer == comm_.rank() && other.direction == Direction::receive;
      });
      if (receive == transfers_.end()) fail_alone();
      if (receive->bytes != send.bytes) fail_bytes(comm_.rank(), send.bytes, receive->bytes);
      if (send.bytes > 0) std::memmove(receive->buffer, send.buffer, send.bytes);
      send.finished = receive->finished = true;
      ++receive;
    }
    for (const Transfer& transfer : transfers_) {
      if (transfer.peer == comm_.rank() && !transfer.finished) fail_alone();
    }
  }

  // Moves every transfer as far as it goes without waiting; true when all are finished.
  bool step() {
    bool all_finished = true;
    for (std::size_t i = 0; i < transfers_.size(); ++i) {
      Transfer& transfer = transfers_[i];
      if (!transfer.finished && first_of_its_pair(i)) {
        transfer.direction == Direction::send ? advance_send(transfer) : advance_receive(transfer);
      }
      all_finished = all_finished && transfer.finished;
    }
    return all_finished;
  }

  // Messages between two ranks arrive in order, so only the oldest unfinished one moves.
  bool first_of_its_pair(std::size_t index) const {
    const Transfer& mine = transfers_[index];
    return std::none_of(transfers_.begin(), transfers_.begin() + std::ptrdiff_t(index), [&](const Transfer& other) {
      return !other.finished && other.peer == mine.peer && other.direction == mine.direction;
    });
  }

  void advance_send(Transfer& transfer) {
    const Ring ring = Ring::between(comm_.segment(), comm_.rank(), transfer.peer);
    std::uint32_t& sequence = comm_.sent[std::size_t(transfer.peer)];
    const bool by_reference = comm_.same_process(transfer.peer) && transfer.bytes >= by_reference_min &&
                              !comm_.segment().header().force_staged;
    for (;;) {
      const std::uint32_t consumed = ring.consumed.load(std::memory_order_acquire);
      if (by_reference && transfer.done > 0) {
        transfer.finished = consumed == sequence;
        progressed_ = progressed_ || transfer.finished;
        return;
      }
      if (sequence - consumed == ring_entries) return;
      EntryLine& line = ring.line(sequence);
      const std::size_t piece =
          by_reference ? transfer.bytes : std::min(transfer.bytes - transfer.done, comm_.segment().layout().ring_bytes);
      line.message_bytes = transfer.bytes;
      line.reference = by_reference ? transfer.buffer : nullptr;
      if (!by_reference) comm_.shared_store.write(ring.payload(sequence), transfer.buffer + transfer.done, piece);
      line.filled.store(++sequence, std::memory_order_release);
      transfer.done += piece;
      progressed_ = true;
      if (!by_reference && transfer.done == transfer.bytes) {
        transfer.finished = true;
        return;
      }
    }
  }

  void advance_receive(Transfer& transfer) {
    const Ring ring = Ring::between(comm_.segment(), transfer.peer, comm_.rank());
    std::uint32_t& sequence = comm_.received[std::size_t(transfer.peer)];
    while (!transfer.finished) {
      const EntryLine& line = ring.line(sequence);
      if (line.filled.load(std::memory_order_acquire) != sequence + 1) return;
      if (line.message_bytes != transfer.bytes) fail_bytes(transfer.peer, line.message_bytes, transfer.bytes);
      const std::size_t piece = line.reference
                                    ? transfer.bytes
                                    : std::min(transfer.bytes - transfer.done, comm_.segment().layout().ring_bytes);
      copy_bytes(transfer.buffer + transfer.done, line.reference ? line.reference : ring.payload(sequence), piece);
      ring.consumed.store(++sequence, std::memory_order_release);
      transfer.done += piece;
      transfer.finished = transfer.done == transfer.bytes;
      progressed_ = true;
    }
  }

  // Moves on first: what a rank left in its rings before it ended still counts.
  bool needs(int rank) {
    step();
    return std::any_of(transfers_.begin(), transfers_.end(),
                       [&](const Transfer& transfer) { return !transfer.finished && transfer.peer == rank; });
  }

  [[noreturn]] void fail_alone() const {
    throw Failure(
        ncclInvalidUsage,
        text("Rank %d sends to or receives from itself without the counterpart in the same group.", comm_.rank()));
  }
  [[noreturn]] void fail_bytes(int from, std::size_t sent, std::size_t expected) const {
    const std::string sentence =
        text("Rank %d sent %zu bytes where rank %d receives %zu.", from, sent, comm_.rank(), expected);
    announce_failure(comm_.segment().header(), ncclInvalidUsage, sentence);
    throw Failure(ncclInvalidUsage, sentence);
  }

  Communicator& comm_;
  std::vector<Transfer>& transfers_;
  bool progressed_ = false;
};

}  // namespace

void Communicator::run(std::vector<Transfer>& transfers) {
  watch_->check();
  Batch(*this, transfers).run();
}

}  // namespace busbw::cpu

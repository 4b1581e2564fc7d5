// The short algorithm: one exchange of header lines with the whole contribution in or behind them. Latency is all.
#include <array>
#include <cstring>

#include "library/cpu/algorithms.h"
#include "library/cpu/copy.h"
#include "library/cpu/reduce.h"

namespace busbw::cpu {
namespace {

// What fits the rest of a header line travels in it: one cache line per rank crosses the machine.
unsigned char* payload(SharedSegment& segment, int rank, Epoch epoch, std::size_t bytes) {
  HeaderLine& line = segment.line(rank, epoch);
  static_assert(sizeof(HeaderLine) - offsetof(HeaderLine, inline_data) == sizeof line.inline_data);
  return line.inline_data + (bytes <= sizeof line.inline_data ? 0 : sizeof line.inline_data);
}

struct Arrived {
  Communicator& comm;
  const Collective& call;
  Epoch epoch;
  // Of a whole send buffer, and of what one rank gets from it.
  std::size_t bytes;
  std::size_t piece_bytes;

  // What `from` sent to this rank. Its own contribution a rank takes from its own buffer.
  const unsigned char* source(int from) const {
    const std::size_t shift = sends_per_rank(call.kind) ? std::size_t(comm.rank()) * piece_bytes : 0;
    if (from == comm.rank()) return static_cast<const unsigned char*>(call.send) + shift;
    return payload(comm.segment(), from, epoch, bytes) + shift;
  }

  void reduce() const {
    std::array<const void*, max_ranks> sources;
    std::array<std::uint64_t, max_ranks> scalars;
    for (int from = 0; from < comm.ranks(); ++from) sources[std::size_t(from)] = source(from);
    if (call.reduction == Reduction::premul_sum) {
      for (int from = 0; from < comm.ranks(); ++from) {
        scalars[std::size_t(from)] = comm.segment().line(from, epoch).scalar;
      }
    }
    reduce_kernel(call.type, call.reduction)({.sources = sources.data(),
                                              .scalars = scalars.data(),
                                              .source_count = comm.ranks(),
                                              .destinations = &call.recv,
                                              .destination_count = 1,
                                              .count = call.count});
  }

  void gather() const {
    for (int from = 0; from < comm.ranks(); ++from) {
      copy_bytes(static_cast<unsigned char*>(call.recv) + std::size_t(from) * piece_bytes, source(from), piece_bytes);
    }
  }
};

}  // namespace

void run_short(Communicator& comm, const Collective& call, std::size_t bytes) {
  const Epoch epoch = comm.next_epoch();
  if (contributes(call, comm.rank())) {
    comm.shared_store.write(payload(comm.segment(), comm.rank(), epoch, bytes), call.send, bytes);
  }
  const std::size_t behind_header = bytes <= sizeof(HeaderLine::inline_data) ? 0 : bytes;
  comm.publish(call, behind_header);
  comm.await(call, epoch, behind_header);
  if (call.count == 0 || !receives(call, comm.rank())) return;
  const Arrived arrived{comm, call, epoch, bytes, call.count * element_size(call.type)};
  if (reduces(call.kind)) {
    arrived.reduce();
  } else if (receives_per_rank(call.kind) || call.kind == CollectiveKind::internal) {
    arrived.gather();
  } else {
    copy_bytes(call.recv, arrived.source(call.root), arrived.piece_bytes);
  }
}

}  // namespace busbw::cpu

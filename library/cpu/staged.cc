// The staged algorithm: contributions pass through the slots of the shared segment in chunks.
#include <array>

#include "library/cpu/algorithms.h"
#include "library/cpu/copy.h"
#include "library/cpu/reduce.h"

namespace busbw::cpu {
namespace {

class Staging {
 public:
  Staging(Communicator& comm, const Collective& call)
      : comm_(comm),
        call_(call),
        element_(element_size(call.type)),
        pieces_(sends_per_rank(call.kind) ? comm.ranks() : 1) {
    const SharedSegment& segment = comm.segment();
    const std::size_t chunk = std::min<std::size_t>(comm.segment().header().chunk_bytes, segment.layout().slot_bytes);
    // Many ranks share one slot: a piece must hold at least one element of the widest type.
    limit_ = std::max<std::size_t>(chunk / std::size_t(pieces_) / element_, 1);
  }

  void run() {
    const std::size_t chunks = chunk_count(call_.count, limit_);
    const Epoch first = comm_.next_epoch();
    contribute(0);
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
      // One chunk ahead, so that peers find work while this rank consumes; the layout's sets are made for that.
      if (chunk + 1 < chunks) contribute(chunk + 1);
      const Epoch epoch = first + Epoch(chunk);
      comm_.await(call_, epoch);
      if (receives(call_, comm_.rank())) consume(epoch, chunk_of(call_.count, limit_, chunk));
    }
  }

 private:
  const unsigned char* own(std::size_t piece, const Part& part) const {
    return static_cast<const unsigned char*>(call_.send) + (piece * call_.count + part.first) * element_;
  }
  unsigned char* out(std::size_t piece, const Part& part) const {
    return static_cast<unsigned char*>(call_.recv) + (piece * call_.count + part.first) * element_;
  }

  void contribute(std::size_t chunk) {
    const Part part = chunk_of(call_.count, limit_, chunk);
    if (contributes(call_, comm_.rank()) && part.count > 0) {
      unsigned char* to = comm_.segment().slot(comm_.rank(), comm_.next_epoch());
      const std::size_t bytes = part.count * element_;
      for (int piece = 0; piece < pieces_; ++piece) {
        comm_.shared_store.write(to + std::size_t(piece) * bytes, own(std::size_t(piece), part), bytes);
      }
    }
    comm_.publish(call_);
  }

  // What `from` contributed for this rank. Its own contribution a rank takes from its own buffer.
  const unsigned char* source(int from, Epoch epoch, const Part& part) {
    const std::size_t piece = pieces_ == 1 ? 0 : std::size_t(comm_.rank());
    if (from == comm_.rank()) return own(piece, part);
    return comm_.segment().slot(from, epoch) + piece * part.count * element_;
  }

  void consume(Epoch epoch, const Part& part) {
    if (part.count == 0) return;
    if (reduces(call_.kind)) return reduce(epoch, part);
    if (receives_per_rank(call_.kind) || call_.kind == CollectiveKind::internal) {
      for (int from = 0; from < comm_.ranks(); ++from) {
        copy_bytes(out(std::size_t(from), part), source(from, epoch, part), part.count * element_);
      }
      return;
    }
    copy_bytes(out(0, part), source(call_.root, epoch, part), part.count * element_);
  }

  void reduce(Epoch epoch, const Part& part) {
    std::array<const void*, max_ranks> sources;
    std::array<std::uint64_t, max_ranks> scalars;
    for (int from = 0; from < comm_.ranks(); ++from) {
      sources[std::size_t(from)] = source(from, epoch, part);
      if (call_.reduction == Reduction::premul_sum) {
        scalars[std::size_t(from)] = comm_.segment().line(from, epoch).scalar;
      }
    }
    void* destination = out(0, part);
    reduce_kernel(call_.type, call_.reduction)({.sources = sources.data(),
                                                .scalars = scalars.data(),
                                                .source_count = comm_.ranks(),
                                                .destinations = &destination,
                                                .destination_count = 1,
                                                .count = part.count});
  }

  Communicator& comm_;
  const Collective& call_;
  std::size_t element_;
  int pieces_;
  // Elements per chunk and piece.
  std::size_t limit_;
};

}  // namespace

void run_staged(Communicator& comm, const Collective& call) { Staging(comm, call).run(); }

}  // namespace busbw::cpu

// The direct algorithm: ranks that can reach each other's buffers split the work and write results where they belong.
//
// First exchange: everyone's buffers are known and ready. Then each rank does its share, which no other rank touches.
// Second exchange: all shares are done, buffers belong to their owners again.
#include <array>
#include <cstring>

#include "library/cpu/algorithms.h"
#include "library/cpu/copy.h"
#include "library/cpu/reduce.h"

namespace busbw::cpu {
namespace {

struct Buffers {
  unsigned char* send;
  unsigned char* recv;
  std::uint64_t reachable;
};
static_assert(sizeof(Buffers) <= sizeof(HeaderLine::inline_data));

class Direct {
 public:
  Direct(Communicator& comm, const Collective& call) : comm_(comm), call_(call), element_(element_size(call.type)) {}

  bool run() {
    if (!meet()) return false;
    work();
    comm_.publish(call_);
    comm_.await(call_, comm_.published());
    return true;
  }

 private:
  bool meet() {
    // An alltoall in place would overwrite what its peers still have to read.
    const bool reachable = call_.kind != CollectiveKind::all_to_all || call_.send != call_.recv;
    const Buffers mine{static_cast<unsigned char*>(const_cast<void*>(call_.send)),
                       static_cast<unsigned char*>(call_.recv), reachable};
    std::memcpy(comm_.next_line().inline_data, &mine, sizeof mine);
    comm_.publish(call_);
    const Epoch epoch = comm_.published();
    comm_.await(call_, epoch);
    bool all_reachable = true;
    for (int rank = 0; rank < comm_.ranks(); ++rank) {
      Buffers& buffers = buffers_[std::size_t(rank)];
      const HeaderLine& line = comm_.segment().line(rank, epoch);
      std::memcpy(&buffers, line.inline_data, sizeof buffers);
      scalars_[std::size_t(rank)] = line.scalar;
      all_reachable = all_reachable && buffers.reachable;
    }
    return all_reachable;
  }

  unsigned char* send_of(int rank, std::size_t element) const {
    return buffers_[std::size_t(rank)].send + element * element_;
  }
  unsigned char* recv_of(int rank, std::size_t element) const {
    return buffers_[std::size_t(rank)].recv + element * element_;
  }

  void work() {
    const int rank = comm_.rank();
    const std::size_t count = call_.count;
    const std::size_t mine = std::size_t(rank) * count;
    // Parts end on cache lines, so that ranks do not write to the same one.
    const Part part = part_of(count, comm_.ranks(), rank, 64 / element_);
    switch (call_.kind) {
      case CollectiveKind::all_reduce:
        return reduce(part.first, part, 0, comm_.ranks());
      case CollectiveKind::reduce:
        return reduce(part.first, part, call_.root, call_.root + 1);
      case CollectiveKind::reduce_scatter:
        return reduce(mine, {0, count}, rank, rank + 1);
      case CollectiveKind::broadcast:
        for (int to = 0; to < comm_.ranks(); ++to)
          copy(recv_of(to, part.first), send_of(call_.root, part.first), part.count);
        return;
      case CollectiveKind::all_gather:
        for (int to = 0; to < comm_.ranks(); ++to) copy(recv_of(to, mine), send_of(rank, 0), count);
        return;
      case CollectiveKind::all_to_all:
        for (int from = 0; from < comm_.ranks(); ++from) {
          copy(recv_of(rank, std::size_t(from) * count), send_of(from, mine), count);
        }
        return;
      case CollectiveKind::gather:
        return copy(recv_of(call_.root, mine), send_of(rank, 0), count);
      case CollectiveKind::scatter:
        return copy(recv_of(rank, 0), send_of(call_.root, mine), count);
      case CollectiveKind::internal:
        return;
    }
  }

  void copy(void* to, const void* from, std::size_t count) { copy_bytes(to, from, count * element_); }

  // Reduces elements [first, first + part.count) of every send buffer into those from part.first on of the receive
  // buffers of ranks [begin, end).
  void reduce(std::size_t first, const Part& part, int begin, int end) {
    std::array<const void*, max_ranks> sources;
    std::array<void*, max_ranks> destinations;
    for (int rank = 0; rank < comm_.ranks(); ++rank) sources[std::size_t(rank)] = send_of(rank, first);
    for (int rank = begin; rank < end; ++rank) destinations[std::size_t(rank - begin)] = recv_of(rank, part.first);
    reduce_kernel(call_.type, call_.reduction)({.sources = sources.data(),
                                                .scalars = scalars_.data(),
                                                .source_count = comm_.ranks(),
                                                .destinations = destinations.data(),
                                                .destination_count = end - begin,
                                                .count = part.count});
  }

  Communicator& comm_;
  const Collective& call_;
  std::size_t element_;
  std::array<Buffers, max_ranks> buffers_;
  std::array<std::uint64_t, max_ranks> scalars_;
};

}  // namespace

bool use_direct(const Communicator& comm, const Collective& call) {
  if (call.kind == CollectiveKind::internal || !comm.one_process() || comm.ranks() == 1) return false;
  return !const_cast<Communicator&>(comm).segment().header().force_staged;
}

bool run_direct(Communicator& comm, const Collective& call) { return Direct(comm, call).run(); }

}  // namespace busbw::cpu

// hypercube: an all-gather in log2(n) exchanges, each with the rank across one more dimension of a cube.
#include <algorithm>

#include "engine/collectives/point_to_point.h"
#include "engine/collectives/questions.h"
#include "engine/collectives/registry.h"
#include "engine/collectives/shapes.h"

namespace busbw {
namespace {

class Hypercube : public Collective {
 public:
  std::string_view name() const override { return "hypercube"; }
  // nccl-tests leaves the column empty.
  std::string_view op_column(RedOp) const override { return ""; }

  Geometry geometry(Bytes bytes, DataType type, Seat seat) const override {
    Geometry g = part_to_parts(bytes, type, seat);
    g.algorithm_elements = static_cast<double>(g.count) * (seat.ranks - 1);
    return g;
  }

  double bus_factor(int) const override { return 1.0; }

  std::vector<Segment> expected(const Geometry& g, Seat seat, int, bool) const override { return every_part(g, seat); }

  int steps(int ranks) const override {
    int exchanges = 0;
    for (int width = 1; width < ranks; width *= 2) ++exchanges;
    return std::max(1, exchanges);
  }

  ncclResult_t enqueue(const Call& call) const override {
    if (call.step == 0)
      if (const ncclResult_t asked = ask_size_and_rank(call); asked != ncclSuccess) return asked;
    const std::size_t each = call.geometry.count;
    const std::size_t bytes = each * element_size(call.type);
    char* own = call.recv + bytes * static_cast<std::size_t>(call.seat.rank);
    if (call.step == 0 && own != call.send) call.copy(own, call.send, bytes);
    const int width = 1 << call.step;
    if (width >= call.seat.ranks) return ncclSuccess;
    Call exchange = call;
    exchange.send = call.recv;
    // Before this step a rank holds the `width` parts of its own subcube, which start at `start`.
    const int start = call.seat.rank & ~(width - 1);
    const int peer = call.seat.rank ^ width;
    const std::size_t count = each * static_cast<std::size_t>(width);
    return in_group(call.nccl, [&] {
      const ncclResult_t sent = send_to(exchange, each * static_cast<std::size_t>(start), count, peer);
      return sent != ncclSuccess ? sent
                                 : recv_from(exchange, each * static_cast<std::size_t>(start ^ width), count, peer);
    });
  }

  std::string why_not(const NcclFunctions& nccl, int ranks) const override {
    if ((ranks & (ranks - 1)) != 0)
      return "hypercube needs a number of ranks that is a power of two; there are " + std::to_string(ranks);
    return needs_send_recv(nccl);
  }
};

}  // namespace

std::unique_ptr<Collective> make_hypercube(const TrafficOptions&) { return std::make_unique<Hypercube>(); }

}  // namespace busbw

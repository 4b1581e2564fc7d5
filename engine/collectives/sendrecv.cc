// sendrecv: every rank sends to the next and receives from the previous one, in a ring.
#include "engine/collectives/point_to_point.h"
#include "engine/collectives/questions.h"
#include "engine/collectives/registry.h"
#include "engine/collectives/shapes.h"

namespace busbw {
namespace {

class SendRecv : public Collective {
 public:
  std::string_view name() const override { return "sendrecv"; }
  bool checked_in_place() const override { return false; }
  // nccl-tests names an operation here although none is applied.
  std::string_view op_column(RedOp op) const override { return busbw::name(op); }

  Geometry geometry(Bytes bytes, DataType type, Seat) const override { return whole_to_whole(bytes, type); }

  double bus_factor(int) const override { return 1.0; }

  std::vector<Segment> expected(const Geometry& g, Seat seat, int, bool) const override {
    return {{.count = g.count, .rank = (seat.rank + seat.ranks - 1) % seat.ranks}};
  }

  ncclResult_t enqueue(const Call& c) const override {
    if (const ncclResult_t asked = ask_size_and_rank(c); asked != ncclSuccess) return asked;
    return in_group(c.nccl, [&] {
      const ncclResult_t sent = send_to(c, 0, c.geometry.count, (c.seat.rank + 1) % c.seat.ranks);
      return sent != ncclSuccess ? sent
                                 : recv_from(c, 0, c.geometry.count, (c.seat.rank + c.seat.ranks - 1) % c.seat.ranks);
    });
  }

  std::string why_not(const NcclFunctions& nccl, int) const override { return needs_send_recv(nccl); }
};

}  // namespace

std::unique_ptr<Collective> make_sendrecv(const TrafficOptions&) { return std::make_unique<SendRecv>(); }

}  // namespace busbw

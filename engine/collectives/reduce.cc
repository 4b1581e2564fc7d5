// reduce: the root ends with the reduction of all ranks' buffers; the others' receive buffers stay as they were.
#include "engine/collectives/registry.h"
#include "engine/collectives/shapes.h"
#include "engine/library_api/functions.h"

namespace busbw {
namespace {

class Reduce : public Collective {
 public:
  std::string_view name() const override { return "reduce"; }
  bool reduces() const override { return true; }
  bool rooted() const override { return true; }

  Geometry geometry(Bytes bytes, DataType type, Seat) const override { return whole_to_whole(bytes, type); }

  double bus_factor(int) const override { return 1.0; }

  std::vector<Segment> expected(const Geometry& g, Seat seat, int root, bool in_place) const override {
    if (seat.rank == root) return {{.count = g.count, .source = Segment::Source::reduction}};
    // In place, the untouched receive buffer is the rank's own input.
    if (in_place) return {{.count = g.count, .rank = seat.rank}};
    return {};
  }

  ncclResult_t enqueue(const Call& c) const override {
    return c.nccl.reduce(c.send, c.recv, c.geometry.count, static_cast<ncclDataType_t>(c.type), c.op, c.root, c.comm,
                         c.stream);
  }

  std::string why_not(const NcclFunctions& nccl, int) const override {
    return nccl.reduce != nullptr ? "" : "the library exports no ncclReduce";
  }
};

}  // namespace

std::unique_ptr<Collective> make_reduce(const TrafficOptions&) { return std::make_unique<Reduce>(); }

}  // namespace busbw

// reduce_scatter: rank r ends with part r of the reduction of all ranks' buffers.
#include "engine/collectives/registry.h"
#include "engine/collectives/shapes.h"
#include "engine/library_api/functions.h"

namespace busbw {
namespace {

class ReduceScatter : public Collective {
 public:
  std::string_view name() const override { return "reduce_scatter"; }
  bool reduces() const override { return true; }

  Geometry geometry(Bytes bytes, DataType type, Seat seat) const override { return parts_to_part(bytes, type, seat); }

  double bus_factor(int ranks) const override { return double(ranks - 1) / ranks; }

  std::vector<Segment> expected(const Geometry& g, Seat seat, int, bool) const override {
    return {{.count = g.count,
             .source = Segment::Source::reduction,
             .source_offset = g.count * static_cast<std::size_t>(seat.rank)}};
  }

  ncclResult_t enqueue(const Call& c) const override {
    return c.nccl.reduce_scatter(c.send, c.recv, c.geometry.count, static_cast<ncclDataType_t>(c.type), c.op, c.comm,
                                 c.stream);
  }

  std::string why_not(const NcclFunctions& nccl, int) const override {
    return nccl.reduce_scatter != nullptr ? "" : "the library exports no ncclReduceScatter";
  }
};

}  // namespace

std::unique_ptr<Collective> make_reduce_scatter(const TrafficOptions&) { return std::make_unique<ReduceScatter>(); }

}  // namespace busbw

// all_reduce: every rank ends with the reduction of all ranks' buffers.
#include "engine/collectives/registry.h"
#include "engine/collectives/shapes.h"
#include "engine/library_api/functions.h"

namespace busbw {
namespace {

class AllReduce : public Collective {
 public:
  std::string_view name() const override { return "all_reduce"; }
  bool reduces() const override { return true; }

  Geometry geometry(Bytes bytes, DataType type, Seat) const override { return whole_to_whole(bytes, type); }

  // A ring sends every element 2(n-1)/n times through each link; no algorithm on point-to-point links needs less.
  double bus_factor(int ranks) const override { return 2.0 * (ranks - 1) / ranks; }

  std::vector<Segment> expected(const Geometry& g, Seat, int, bool) const override {
    return {{.count = g.recv_elements, .source = Segment::Source::reduction}};
  }

  ncclResult_t enqueue(const Call& c) const override {
    return c.nccl.all_reduce(c.send, c.recv, c.geometry.count, static_cast<ncclDataType_t>(c.type), c.op, c.comm,
                             c.stream);
  }

  std::string why_not(const NcclFunctions& nccl, int) const override {
    return nccl.all_reduce != nullptr ? "" : "the library exports no ncclAllReduce";
  }
};

}  // namespace

std::unique_ptr<Collective> make_all_reduce(const TrafficOptions&) { return std::make_unique<AllReduce>(); }

}  // namespace busbw

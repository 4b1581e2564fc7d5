// all_gather: every rank ends with all ranks' buffers, in rank order.
#include "engine/collectives/registry.h"
#include "engine/collectives/shapes.h"
#include "engine/library_api/functions.h"

namespace busbw {
namespace {

class AllGather : public Collective {
 public:
  std::string_view name() const override { return "all_gather"; }

  Geometry geometry(Bytes bytes, DataType type, Seat seat) const override { return part_to_parts(bytes, type, seat); }

  double bus_factor(int ranks) const override { return double(ranks - 1) / ranks; }

  std::vector<Segment> expected(const Geometry& g, Seat seat, int, bool) const override { return every_part(g, seat); }

  ncclResult_t enqueue(const Call& c) const override {
    return c.nccl.all_gather(c.send, c.recv, c.geometry.count, static_cast<ncclDataType_t>(c.type), c.comm, c.stream);
  }

  std::string why_not(const NcclFunctions& nccl, int) const override {
    return nccl.all_gather != nullptr ? "" : "the library exports no ncclAllGather";
  }
};

}  // namespace

std::unique_ptr<Collective> make_all_gather(const TrafficOptions&) { return std::make_unique<AllGather>(); }

}  // namespace busbw

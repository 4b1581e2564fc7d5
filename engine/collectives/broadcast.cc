// broadcast: every rank ends with the root's buffer.
#include "engine/collectives/questions.h"
#include "engine/collectives/registry.h"
#include "engine/collectives/shapes.h"
#include "engine/library_api/functions.h"

namespace busbw {
namespace {

class Broadcast : public Collective {
 public:
  std::string_view name() const override { return "broadcast"; }
  bool rooted() const override { return true; }

  Geometry geometry(Bytes bytes, DataType type, Seat) const override { return whole_to_whole(bytes, type); }

  double bus_factor(int) const override { return 1.0; }

  std::vector<Segment> expected(const Geometry& g, Seat, int root, bool) const override {
    return {{.count = g.count, .rank = root}};
  }

  ncclResult_t enqueue(const Call& c) const override {
    if (const ncclResult_t asked = ask_rank(c); asked != ncclSuccess) return asked;
    return c.nccl.broadcast(c.send, c.recv, c.geometry.count, static_cast<ncclDataType_t>(c.type), c.root, c.comm,
                            c.stream);
  }

  std::string why_not(const NcclFunctions& nccl, int) const override {
    return nccl.broadcast != nullptr ? "" : "the library exports no ncclBroadcast";
  }
};

}  // namespace

std::unique_ptr<Collective> make_broadcast(const TrafficOptions&) { return std::make_unique<Broadcast>(); }

}  // namespace busbw

// scatter: rank r ends with part r of the root's buffer.
#include "engine/collectives/point_to_point.h"
#include "engine/collectives/questions.h"
#include "engine/collectives/registry.h"
#include "engine/collectives/shapes.h"

namespace busbw {
namespace {

class Scatter : public Collective {
 public:
  std::string_view name() const override { return "scatter"; }
  bool rooted() const override { return true; }

  Geometry geometry(Bytes bytes, DataType type, Seat seat) const override { return parts_to_part(bytes, type, seat); }

  double bus_factor(int ranks) const override { return double(ranks - 1) / ranks; }

  std::vector<Segment> expected(const Geometry& g, Seat seat, int root, bool) const override {
    return {{.count = g.count, .rank = root, .source_offset = g.count * static_cast<std::size_t>(seat.rank)}};
  }

  ncclResult_t enqueue(const Call& c) const override {
    if (const ncclResult_t asked = ask_size_and_rank(c); asked != ncclSuccess) return asked;
    const std::size_t each = c.geometry.count;
    if (c.nccl.scatter != nullptr)
      return c.nccl.scatter(c.send, c.recv, each, static_cast<ncclDataType_t>(c.type), c.root, c.comm, c.stream);
    return in_group(c.nccl, [&] {
      ncclResult_t result = recv_from(c, 0, each, c.root);
      if (c.seat.rank != c.root) return result;
      for (int r = 0; r < c.seat.ranks && result == ncclSuccess; ++r)
        result = send_to(c, each * static_cast<std::size_t>(r), each, r);
      return result;
    });
  }

  std::string why_not(const NcclFunctions& nccl, int) const override {
    return nccl.scatter != nullptr ? "" : needs_send_recv(nccl);
  }
};

}  // namespace

std::unique_ptr<Collective> make_scatter(const TrafficOptions&) { return std::make_unique<Scatter>(); }

}  // namespace busbw

// gather: the root ends with all ranks' buffers in rank order; the others' receive buffers stay as they were.
#include "engine/collectives/point_to_point.h"
#include "engine/collectives/questions.h"
#include "engine/collectives/registry.h"
#include "engine/collectives/shapes.h"

namespace busbw {
namespace {

class Gather : public Collective {
 public:
  std::string_view name() const override { return "gather"; }
  bool rooted() const override { return true; }

  Geometry geometry(Bytes bytes, DataType type, Seat seat) const override { return part_to_parts(bytes, type, seat); }

  double bus_factor(int ranks) const override { return double(ranks - 1) / ranks; }

  std::vector<Segment> expected(const Geometry& g, Seat seat, int root, bool in_place) const override {
    std::vector<Segment> parts;
    for (int r = 0; r < seat.ranks; ++r) {
      const bool own_input_in_place = in_place && r == seat.rank;
      if (seat.rank == root || own_input_in_place)
        parts.push_back({.offset = g.count * static_cast<std::size_t>(r), .count = g.count, .rank = r});
    }
    return parts;
  }

  ncclResult_t enqueue(const Call& c) const override {
    if (const ncclResult_t asked = ask_size_and_rank(c); asked != ncclSuccess) return asked;
    const std::size_t each = c.geometry.count;
    if (c.nccl.gather != nullptr)
      return c.nccl.gather(c.send, c.recv, each, static_cast<ncclDataType_t>(c.type), c.root, c.comm, c.stream);
    return in_group(c.nccl, [&] {
      ncclResult_t result = send_to(c, 0, each, c.root);
      if (c.seat.rank != c.root) return result;
      for (int r = 0; r < c.seat.ranks && result == ncclSuccess; ++r)
        result = recv_from(c, each * static_cast<std::size_t>(r), each, r);
      return result;
    });
  }

  std::string why_not(const NcclFunctions& nccl, int) const override {
    return nccl.gather != nullptr ? "" : needs_send_recv(nccl);
  }
};

}  // namespace

std::unique_ptr<Collective> make_gather(const TrafficOptions&) { return std::make_unique<Gather>(); }

}  // namespace busbw

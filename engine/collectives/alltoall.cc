// alltoall: part j of rank i's buffer ends as part i of rank j's.
#include "engine/collectives/point_to_point.h"
#include "engine/collectives/questions.h"
#include "engine/collectives/registry.h"
#include "engine/collectives/shapes.h"

namespace busbw {
namespace {

class Alltoall : public Collective {
 public:
  std::string_view name() const override { return "alltoall"; }
  // NCCL reads and writes the same places in no defined order when in place.
  bool checked_in_place() const override { return false; }

  Geometry geometry(Bytes bytes, DataType type, Seat seat) const override { return parts_to_parts(bytes, type, seat); }

  double bus_factor(int ranks) const override { return double(ranks - 1) / ranks; }

  std::vector<Segment> expected(const Geometry& g, Seat seat, int, bool) const override {
    std::vector<Segment> parts;
    for (int r = 0; r < seat.ranks; ++r)
      parts.push_back({.offset = g.count * static_cast<std::size_t>(r),
                       .count = g.count,
                       .rank = r,
                       .source_offset = g.count * static_cast<std::size_t>(seat.rank)});
    return parts;
  }

  ncclResult_t enqueue(const Call& c) const override {
    const std::size_t each = c.geometry.count;
    if (c.nccl.alltoall != nullptr)
      return c.nccl.alltoall(c.send, c.recv, each, static_cast<ncclDataType_t>(c.type), c.comm, c.stream);
    if (const ncclResult_t asked = ask_size(c); asked != ncclSuccess) return asked;
    return in_group(c.nccl, [&] {
      ncclResult_t result = ncclSuccess;
      for (int r = 0; r < c.seat.ranks && result == ncclSuccess; ++r) {
        const std::size_t offset = each * static_cast<std::size_t>(r);
        result = send_to(c, offset, each, r);
        if (result == ncclSuccess) result = recv_from(c, offset, each, r);
      }
      return result;
    });
  }

  std::string why_not(const NcclFunctions& nccl, int) const override {
    return nccl.alltoall != nullptr ? "" : needs_send_recv(nccl);
  }
};

}  // namespace

std::unique_ptr<Collective> make_alltoall(const TrafficOptions&) { return std::make_unique<Alltoall>(); }

}  // namespace busbw

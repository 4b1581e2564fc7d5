// Buffer sizes that several collectives share: named by who holds one part and who holds one for every rank.
#pragma once

#include <vector>

#include "engine/collectives/collective.h"

namespace busbw {

// Everybody sends and receives the same elements: all_reduce, broadcast.
inline Geometry whole_to_whole(Bytes bytes, DataType type) {
  const std::size_t count = whole_count(bytes, type);
  return {.type = type,
          .count = count,
          .send_elements = count,
          .recv_elements = count,
          .span_elements = count,
          .algorithm_elements = static_cast<double>(count)};
}

// Everybody sends a part for every rank and receives one from every rank: alltoall.
inline Geometry parts_to_parts(Bytes bytes, DataType type, Seat seat) {
  const std::size_t each = aligned_count(bytes, type, seat.ranks);
  const std::size_t all = each * static_cast<std::size_t>(seat.ranks);
  return {.type = type,
          .count = each,
          .send_elements = all,
          .recv_elements = all,
          .span_elements = all,
          .algorithm_elements = static_cast<double>(all)};
}

// A rank sends its part, which in place lies where it ends: all_gather, gather.
inline Geometry part_to_parts(Bytes bytes, DataType type, Seat seat) {
  Geometry g = parts_to_parts(bytes, type, seat);
  g.send_elements = g.count;
  g.in_place_send = g.count * static_cast<std::size_t>(seat.rank);
  return g;
}

// A rank receives its part, in place where it lay: reduce_scatter, scatter.
inline Geometry parts_to_part(Bytes bytes, DataType type, Seat seat) {
  Geometry g = parts_to_parts(bytes, type, seat);
  g.recv_elements = g.count;
  g.in_place_recv = g.count * static_cast<std::size_t>(seat.rank);
  return g;
}

// All ranks' contributions in rank order.
inline std::vector<Segment> every_part(const Geometry& g, Seat seat) {
  std::vector<Segment> parts;
  for (int r = 0; r < seat.ranks; ++r)
    parts.push_back({.offset = g.count * static_cast<std::size_t>(r), .count = g.count, .rank = r});
  return parts;
}

}  // namespace busbw

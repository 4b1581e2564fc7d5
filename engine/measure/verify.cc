// Expected values are made piece by piece on the device and compared there.
#include "engine/measure/verify.h"

#include <algorithm>

namespace busbw {
namespace {

Pattern pattern(const Lanes& lanes, const Collective& collective, const Rank& rank, std::uint32_t seed) {
  const PatternKind kind = collective.reduces() ? pattern_kind(lanes.selection().op) : PatternKind::copy;
  return {.type = lanes.selection().type, .kind = kind, .ranks = rank.seat.ranks, .seed = seed};
}

// The segments' parts within `count` elements from `first` on, as offsets from there.
std::vector<Segment> segments_within(std::span<const Segment> segments, std::size_t first, std::size_t count) {
  std::vector<Segment> parts;
  for (Segment part : segments) {
    const std::size_t begin = std::max(part.offset, first);
    const std::size_t end = std::min(part.offset + part.count, first + count);
    if (begin >= end) continue;
    part.source_offset += begin - part.offset;
    part.offset = begin - first;
    part.count = end - begin;
    parts.push_back(part);
  }
  return parts;
}

std::uint64_t count_wrong_of(const Lane& lane, const Pattern& p, std::span<const Segment> expected) {
  Rank& rank = *lane.rank;
  rank.device->use();
  const std::size_t width = element_size(p.type);
  const std::size_t piece = rank.device->check_piece().count / width;
  std::uint64_t wrong = 0;
  for (std::size_t first = 0; first < lane.geometry.recv_elements; first += piece) {
    const std::size_t count = std::min(piece, lane.geometry.recv_elements - first);
    const std::vector<Segment> parts = segments_within(expected, first, count);
    std::size_t covered = 0;
    for (const Segment& part : parts) covered += part.count;
    // What nobody writes was cleared before the operation.
    if (covered < count) rank.device->clear(rank.expected.get(), count * width, *rank.stream);
    rank.device->fill(rank.expected.get(), p, parts, *rank.stream);
    wrong += rank.device->count_wrong(lane.recv + first * width, rank.expected.get(), count, p, *rank.stream);
  }
  return wrong;
}

}  // namespace

void fill(const Lanes& lanes, const Collective& collective, std::uint32_t seed, bool in_place) {
  const std::size_t width = element_size(lanes.selection().type);
  for (const Lane& lane : lanes.all()) {
    Rank& rank = *lane.rank;
    rank.device->use();
    char* const recv_base = lane.recv - (in_place ? lane.geometry.in_place_recv * width : 0);
    rank.device->clear(recv_base, lanes.span_bytes(), *rank.stream);
    rank.device->fill(lane.send, pattern(lanes, collective, rank, seed),
                      collective.inputs(lane.geometry, rank.seat, lanes.selection().root), *rank.stream);
  }
}

std::uint64_t count_wrong(const Lanes& lanes, const Collective& collective, std::uint32_t seed, bool in_place) {
  std::uint64_t wrong = 0;
  for (const Lane& lane : lanes.all()) {
    const std::vector<Segment> expected =
        collective.expected(lane.geometry, lane.rank->seat, lanes.selection().root, in_place);
    wrong += count_wrong_of(lane, pattern(lanes, collective, *lane.rank, seed), expected);
  }
  return wrong;
}

}  // namespace busbw

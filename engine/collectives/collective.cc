// The list of collectives and what they share.
#include "engine/collectives/collective.h"

#include "engine/collectives/registry.h"

namespace busbw {

std::size_t whole_count(Bytes bytes, DataType type) { return bytes.count / element_size(type); }

std::size_t aligned_count(Bytes bytes, DataType type, int ranks) {
  const std::size_t multiple = 16 / element_size(type);
  const std::size_t count = whole_count(bytes, type) / static_cast<std::size_t>(ranks);
  return count - count % multiple;
}

std::vector<Segment> Collective::inputs(const Geometry& geometry, Seat seat, int) const {
  return {{.offset = 0, .count = geometry.send_elements, .source = Segment::Source::contribution, .rank = seat.rank}};
}

namespace {

struct Entry {
  std::string_view name;
  std::unique_ptr<Collective> (*make)(const TrafficOptions&);
};

constexpr Entry entries[] = {
    {"all_reduce", make_all_reduce}, {"all_gather", make_all_gather}, {"reduce_scatter", make_reduce_scatter},
    {"broadcast", make_broadcast},   {"reduce", make_reduce},         {"alltoall", make_alltoall},
    {"alltoallv", make_alltoallv},   {"gather", make_gather},         {"scatter", make_scatter},
    {"sendrecv", make_sendrecv},     {"hypercube", make_hypercube},
};

}  // namespace

const std::vector<std::string_view>& collective_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> list;
    for (const Entry& entry : entries) list.push_back(entry.name);
    return list;
  }();
  return names;
}

std::unique_ptr<Collective> make_collective(std::string_view name, const TrafficOptions& traffic) {
  for (const Entry& entry : entries)
    if (entry.name == name) return entry.make(traffic);
  return nullptr;
}

}  // namespace busbw

// Collectives, types and operations that the library has, and communicators of fewer and fewer ranks.
#include "library/tests/gpu/stress/limits.h"

#include <algorithm>

#include "engine/core/error.h"
#include "library/tests/gpu/stress/lane.h"

namespace busbw::stress {
namespace {

// The collectives that applications call most are drawn most; the others go to the library that ours stands before,
// and must keep their place between the calls that do not.
int weight_of(const std::string& name) {
  if (name == "all_reduce") return 6;
  return name == "reduce" || name == "sendrecv" ? 1 : 3;
}

}  // namespace

std::pair<Limits, std::vector<std::unique_ptr<Collective>>> limits_of(const Options& options, const Library& library,
                                                                      bool asynchronous, bool splits, int ranks) {
  Limits limits;
  std::vector<std::unique_ptr<Collective>> collectives;
  limits.streams = options.streams;
  limits.graphs = asynchronous ? options.graphs : 0;
  limits.overlap = options.overlap;
  limits.windows = options.windows;
  limits.restless = options.restless;
  limits.splits = splits;
  limits.aborts = library.nccl().comm_abort != nullptr;
  limits.largest = options.largest;
  for (const std::string& name : split_list(options.collectives)) {
    std::unique_ptr<Collective> collective = make_collective(name);
    if (collective == nullptr || name == "alltoallv" || name == "hypercube")
      throw Error(ExitCode::bad_arguments, "there is no collective " + name + " that can be drawn");
    if (!collective->why_not(library.nccl(), ranks).empty()) continue;
    const Geometry g = geometry_of(*collective, DataType::uint8, {0, 2}, 1);
    limits.kinds.push_back({.name = name,
                            .weight = weight_of(name),
                            .reduces = collective->reduces(),
                            .rooted = collective->rooted(),
                            .in_place = collective->checked_in_place(),
                            .part_per_rank = g.span_elements > 1});
    collectives.push_back(std::move(collective));
  }
  if (limits.kinds.empty())
    throw Error(ExitCode::bad_arguments, "the library has none of the collectives " + options.collectives);
  for (const DataType type : all_data_types)
    if (library.why_not(type).empty()) limits.types.push_back(type);
  for (const RedOp op : all_red_ops)
    if (library.why_not(op).empty()) limits.ops.push_back(op);
  // Two of everybody, then of fewer and fewer down to two.
  for (int c = 0; c < options.communicators; ++c)
    limits.communicators.push_back(c < 2 ? ranks : std::max(2, ranks - c + 1));
  return {std::move(limits), std::move(collectives)};
}

}  // namespace busbw::stress

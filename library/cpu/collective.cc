// Spells a collective's compact description out for error messages.
#include "library/cpu/collective.h"

#include "library/common/failure.h"

namespace busbw::cpu {
namespace {

const char* kind_name(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce:
      return "all_reduce";
    case CollectiveKind::all_gather:
      return "all_gather";
    case CollectiveKind::reduce_scatter:
      return "reduce_scatter";
    case CollectiveKind::broadcast:
      return "broadcast";
    case CollectiveKind::reduce:
      return "reduce";
    case CollectiveKind::all_to_all:
      return "alltoall";
    case CollectiveKind::gather:
      return "gather";
    case CollectiveKind::scatter:
      return "scatter";
    case CollectiveKind::internal:
      return "communicator split";
  }
  return "unknown collective";
}

}  // namespace

std::string spelled(std::uint32_t description, std::size_t count) {
  const auto kind = CollectiveKind(description & 15);
  std::string result = text("%s of %zu %s", kind_name(kind), count, type_name(ncclDataType_t(description >> 4 & 15)));
  if (reduces(kind)) result += text(", %s", reduction_name(Reduction(description >> 8 & 7)));
  if (rooted(kind)) result += text(", root %u", description >> 11);
  return result;
}

}  // namespace busbw::cpu

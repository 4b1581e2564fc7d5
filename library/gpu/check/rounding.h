// How far two right results of one collective may be apart (docs/decisions/0050).
#pragma once

#include <cstddef>
#include <string>

#include "library/gpu/run/call.h"

namespace busbw::gpu {

// Whether results depend on the order in which ranks' elements are put together.
bool rounds(const Call& call);

// One element each, as they lie in memory. `most` and `least` are the largest and the smallest input of all ranks, and
// read only where the call rounds().
struct Compared {
  const void* ours;
  const void* theirs;
  const void* most;
  const void* least;
};
bool agrees(const Call& call, int ranks, const Compared& values);

// "1.5", "-7", "nan"
std::string value_text(ncclDataType_t type, const void* at);

}  // namespace busbw::gpu

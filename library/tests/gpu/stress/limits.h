// What may be drawn: what was asked for, as far as the library and the machine have it.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "engine/collectives/collective.h"
#include "engine/library_api/library.h"
#include "library/tests/gpu/stress/draw.h"
#include "library/tests/gpu/stress/options.h"

namespace busbw::stress {

// Throws Error where nothing that was asked for is there.
std::pair<Limits, std::vector<std::unique_ptr<Collective>>> limits_of(const Options& options, const Library& library,
                                                                      bool asynchronous, bool splits, int ranks);

}  // namespace busbw::stress

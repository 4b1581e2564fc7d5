// The tables for GPUs that we know, and the one for those that we do not.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "library/gpu/choose/choice.h"

namespace busbw::gpu {

inline constexpr std::uint64_t KiB = 1 << 10;
inline constexpr std::uint64_t MiB = 1 << 20;
inline constexpr std::uint64_t no_limit = std::numeric_limits<std::uint64_t>::max();

inline constexpr Use direct_copy{.algorithm = Algorithm::direct, .protocol = Protocol::copy};

// In the order in which they decide.
std::vector<Rule> built_in_rules(const std::string& gpu_name, Preference prefer);

}  // namespace busbw::gpu

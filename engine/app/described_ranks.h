// What the processes of a job tell each other of their ranks and hosts.
#pragma once

#include <string>
#include <vector>

#include "engine/core/result.h"

namespace busbw {

// What the hosts of a job run.
struct Software {
  std::vector<std::string> kernels, drivers, hardware;
};

// All of them in one text, sorted.
std::string joined(std::vector<std::string> values);

// The ranks that a process described, one a line, fields separated by tabs; what its host runs is added to `software`.
// Throws Error(internal): what other processes tell is parsed with care.
std::vector<RankDescription> parse_ranks(const std::string& text, Software& software);

}  // namespace busbw

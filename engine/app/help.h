// The text of --help: every option, grouped, with its default.
#pragma once

#include <string>

namespace busbw {

// `program` is how the person called it: all_reduce_perf, or busbw-engine.
std::string usage(const std::string& program);

}  // namespace busbw

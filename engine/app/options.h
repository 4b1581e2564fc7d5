// From argv and environment to a Plan: the option parser, with the flags of nccl-tests and those that are new.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "engine/core/plan.h"

namespace busbw {

// Looks up one variable: std::getenv, or a map in tests. Null where it is not set.
using ReadVariable = std::function<const char*(const char* name)>;
const char* process_environment(const char* name);

struct Command {
  enum class Kind { measure, help, version };
  Kind kind = Kind::measure;
  Plan plan;
  std::string text;  // of help and version: to be printed as it is
};

// The collective is named by argv[0] (all_reduce_perf, all_reduce_perf_mpi), else by the first word. Throws
// Error(bad_arguments) with one sentence for everything it does not understand.
Command parse_command_line(int argc, const char* const* argv, const ReadVariable& read_variable = process_environment);

// Whether a program of this name stands in for one of nccl-tests: all_reduce_perf does, busbw-engine does not.
bool stands_in(const char* argv0);

// What can only be checked once the number of ranks of a communicator is known, such as the root.
void check_ranks(const Plan& plan, int ranks);

// NCCL_TESTS_MIN_BW in GB/s: an average below 0.9 of it fails the run.
std::optional<double> required_busbw(const ReadVariable& read_variable = process_environment);

// The communicator that a rank belongs to. `split` is Plan::split: AND or &, OR or |, MOD or %, DIV or /, then a
// decimal, 0x, 0b or octal number. An empty one gives colour 0. Throws Error(bad_arguments) for one that cannot be
// read.
int split_colour(std::string_view split, int world_rank);

}  // namespace busbw

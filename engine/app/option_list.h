// The engine's options as schema/options.json declares them, and what each does to the plan.
#pragma once

#include <climits>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/plan.h"

namespace busbw {

struct Option;

// An option as a person wrote it.
struct Given {
  const Option& option;
  std::string value;
};

struct Option {
  char letter = 0;          // 0: a long name only
  std::string_view name;    // minbytes
  std::string_view value;   // what help calls the value; empty: it takes none
  std::string_view normal;  // default as help shows it; empty: none
  std::string_view meaning;
  std::string_view group;  // the heading that help shows it under
  bool ours = false;       // nccl-tests does not have it
  int low = INT_MIN;       // of a whole number
  int high = INT_MAX;
  void (*apply)(Plan& plan, const Given& given) = nullptr;
};

const std::vector<Option>& options();

// A name that an option had until this release.
struct OldName {
  std::string_view name;
  std::string_view now;
};
const std::vector<OldName>& old_names();

// Options that `busbw` takes beside the engine's, such as --launcher: a program that starts no ranks names their place.
const std::vector<std::string_view>& outer_options();

// "-b (--minbytes)", for messages.
std::string shown(const Option& option);

}  // namespace busbw

// The one list of options: the parser, the help text and the test of the documentation all walk it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/core/plan.h"

namespace busbw {

enum class OptionGroup { what, sizes, how_often, ranks, timing, checking, output, library, other };

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
  OptionGroup group = OptionGroup::other;
  bool ours = false;  // nccl-tests does not have it
  void (*apply)(Plan& plan, const Given& given) = nullptr;
};

const std::vector<Option>& options();

// "-b (--minbytes)", for messages.
std::string shown(const Option& option);

}  // namespace busbw

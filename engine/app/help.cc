// Lays the list of options out for a terminal of 80 columns.
#include "engine/app/help.h"

#include <algorithm>
#include <sstream>
#include <vector>

#include "engine/app/option_list.h"
#include "engine/collectives/collective.h"

namespace busbw {
namespace {

constexpr std::size_t width = 80;
constexpr std::size_t text_column = 31;

// Adds `text` in lines that start at `column`, the first where the cursor stands.
void wrap(std::string& out, const std::string& text, std::size_t column) {
  std::size_t at = out.size() - (out.find_last_of('\n') + 1);
  std::istringstream words(text);
  bool first_of_line = true;
  for (std::string word; words >> word;) {
    if (!first_of_line && at + 1 + word.size() > width) {
      out += '\n' + std::string(column, ' ');
      at = column;
      first_of_line = true;
    }
    if (!first_of_line) out += ' ', ++at;
    out += word;
    at += word.size();
    first_of_line = false;
  }
}

void describe(std::string& out, const Option& option) {
  std::string left = option.letter ? std::string("  -") + option.letter + ", " : "      ";
  left += "--" + std::string(option.name);
  if (!option.value.empty()) left += ' ' + std::string(option.value);
  out += left;
  out += left.size() + 2 > text_column ? '\n' + std::string(text_column, ' ')
                                       : std::string(text_column - left.size(), ' ');
  const std::string normal = option.normal.empty() ? "" : " (default " + std::string(option.normal) + ")";
  wrap(out, std::string(option.meaning) + normal, text_column);
  out += '\n';
}

// The groups in the order of the table.
void describe_all(std::string& out) {
  std::vector<std::string_view> groups;
  for (const Option& option : options())
    if (std::find(groups.begin(), groups.end(), option.group) == groups.end()) groups.push_back(option.group);
  for (const std::string_view group : groups) {
    out += '\n' + std::string(group) + ":\n";
    for (const Option& option : options())
      if (option.group == group) describe(out, option);
  }
}

bool names_collective(const std::string& program) {
  for (const std::string_view name : collective_names())
    if (program.find(name) != program.npos) return true;
  return false;
}

}  // namespace

std::string usage(const std::string& program) {
  const bool named = names_collective(program);
  std::string out = "usage: " + program + (named ? "" : " COLLECTIVE") + " [options]\n\n";
  wrap(out,
       "Measures latency and bandwidth of a collective over every size from -b to -e, out of place and in place, and "
       "checks the result. Letters, long names and output are those of nccl-tests 2.19.6; a long name may be "
       "shortened as far as it stays unique.",
       0);
  out += '\n';
  if (!named) {
    out += "\nCollectives:\n  ";
    std::string names;
    for (const std::string_view name : collective_names()) names += std::string(name) + ' ';
    wrap(out, names, 2);
    out += '\n';
  }
  describe_all(out);
  const std::string start = named ? program : program + " all_reduce";
  out += "\nExamples:\n";
  out += "  " + start + " -b 8 -e 128M -f 2\n";
  out += "  " + start + " -b 8 -e 64M -f 2 -t 2 --library cpu\n";
  out += "  " + start + " -b 1M -e 1M --precision 1% --record run.jsonl\n";
  return out;
}

}  // namespace busbw

// Reads what other processes told of their ranks.
#include "engine/app/described_ranks.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "engine/core/error.h"

namespace busbw {
namespace {

// Each value once, in the order in which hosts name it.
void add_once(std::vector<std::string>& values, const std::string& value) {
  if (!value.empty() && std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
}

}  // namespace

std::string joined(std::vector<std::string> values) {
  std::sort(values.begin(), values.end());
  std::string text;
  for (const std::string& value : values) text += (text.empty() ? "" : ", ") + value;
  return text;
}

std::vector<RankDescription> parse_ranks(const std::string& text, Software& software) {
  std::vector<RankDescription> ranks;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::vector<std::string> fields;
    std::istringstream words(line);
    for (std::string word; std::getline(words, word, '\t');) fields.push_back(word);
    if (fields.size() < 9)
      throw Error(ExitCode::internal, "a process described its ranks in a form that cannot be read");
    fields.resize(14);
    add_once(software.kernels, fields[11]);
    add_once(software.drivers, fields[12]);
    add_once(software.hardware, fields[13]);
    ranks.push_back({.rank = std::atoi(fields[0].c_str()),
                     .group = std::atoi(fields[1].c_str()),
                     .process = std::atoi(fields[2].c_str()),
                     .thread = std::atoi(fields[3].c_str()),
                     .pid = std::atol(fields[4].c_str()),
                     .host = fields[5],
                     .gpu = fields[6] == "1",
                     .device = std::atoi(fields[7].c_str()),
                     .device_name = fields[9],
                     .bus_id = fields[8],
                     .cpus = fields[10]});
  }
  return ranks;
}

}  // namespace busbw

// Expands Slurm's short forms of host lists and task counts.
#include "engine/rendezvous/join/node_list.h"

#include <charconv>
#include <optional>

#include "engine/core/error.h"

namespace busbw {
namespace {

constexpr std::size_t most_hosts = 65536;

[[noreturn]] void malformed(const char* what, std::string_view list) {
  throw Error(ExitCode::bad_arguments, format("'%.*s' is no %s as Slurm writes it; set BUSBW_ADDRESS=host:port instead",
                                              static_cast<int>(list.size()), list.data(), what));
}

std::optional<long> whole_number(std::string_view text) {
  long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

// Splits at commas that stand outside brackets.
std::vector<std::string_view> split_outside_brackets(std::string_view list, std::string_view whole) {
  std::vector<std::string_view> parts;
  std::size_t start = 0;
  int depth = 0;
  for (std::size_t i = 0; i <= list.size(); ++i) {
    if (i == list.size() || (list[i] == ',' && depth == 0)) {
      parts.push_back(list.substr(start, i - start));
      start = i + 1;
    } else if (list[i] == '[') {
      ++depth;
    } else if (list[i] == ']') {
      --depth;
    }
    if (depth < 0 || depth > 1) malformed("host list", whole);
  }
  if (depth != 0) malformed("host list", whole);
  return parts;
}

// "01-03" gives 01, 02, 03: the width of the first number is kept.
std::vector<std::string> expand_range(std::string_view range, std::string_view whole) {
  const std::size_t dash = range.find('-');
  const std::string_view low = range.substr(0, dash);
  const std::string_view high = dash == std::string_view::npos ? low : range.substr(dash + 1);
  const auto first = whole_number(low), last = whole_number(high);
  if (!first || !last || *last < *first || *last - *first >= static_cast<long>(most_hosts)) {
    malformed("host list", whole);
  }
  std::vector<std::string> numbers;
  for (long n = *first; n <= *last; ++n) {
    std::string digits = std::to_string(n);
    if (digits.size() < low.size()) digits.insert(0, low.size() - digits.size(), '0');
    numbers.push_back(std::move(digits));
  }
  return numbers;
}

// A name may hold several brackets: "rack[1-2]n[01-02]" names four hosts.
std::vector<std::string> expand_name(std::string_view name, std::string_view whole) {
  const std::size_t open = name.find('[');
  if (open == std::string_view::npos) {
    if (name.find(']') != std::string_view::npos) malformed("host list", whole);
    return {std::string(name)};
  }
  const std::size_t close = name.find(']', open);
  const std::vector<std::string> tails = expand_name(name.substr(close + 1), whole);
  std::vector<std::string> names;
  for (const std::string_view range : split_outside_brackets(name.substr(open + 1, close - open - 1), whole)) {
    for (const std::string& number : expand_range(range, whole)) {
      for (const std::string& tail : tails) names.push_back(std::string(name.substr(0, open)) + number + tail);
      if (names.size() > most_hosts) malformed("host list", whole);
    }
  }
  return names;
}

}  // namespace

std::vector<std::string> expand_node_list(std::string_view list) {
  std::vector<std::string> hosts;
  for (const std::string_view name : split_outside_brackets(list, list)) {
    if (name.empty()) malformed("host list", list);
    for (std::string& host : expand_name(name, list)) hosts.push_back(std::move(host));
    if (hosts.size() > most_hosts) malformed("host list", list);
  }
  return hosts;
}

std::vector<int> expand_tasks_per_node(std::string_view list) {
  std::vector<int> counts;
  for (std::string_view part : split_outside_brackets(list, list)) {
    long repeats = 1;
    if (const std::size_t open = part.find("(x"); open != std::string_view::npos) {
      if (part.back() != ')') malformed("list of tasks per node", list);
      const auto times = whole_number(part.substr(open + 2, part.size() - open - 3));
      if (!times) malformed("list of tasks per node", list);
      repeats = *times;
      part = part.substr(0, open);
    }
    const auto tasks = whole_number(part);
    if (!tasks || *tasks > static_cast<long>(most_hosts) || counts.size() + repeats > most_hosts) {
      malformed("list of tasks per node", list);
    }
    counts.insert(counts.end(), static_cast<std::size_t>(repeats), static_cast<int>(*tasks));
  }
  return counts;
}

}  // namespace busbw

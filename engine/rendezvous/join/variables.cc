// Typed look-ups in a map of environment variables.
#include "engine/rendezvous/join/variables.h"

#include <charconv>

namespace busbw {
namespace {

std::optional<long> parse_number(std::string_view text) {
  long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// What a person reads of a value that may be anything.
std::string in_quotes(std::string_view value) {
  std::string shown;
  for (const char c : value.substr(0, 60)) shown += c >= ' ' && c <= '~' ? c : '?';
  return "'" + shown + (value.size() > 60 ? "...'" : "'");
}

}  // namespace

void bad_environment(const std::string& sentence) { throw Error(ExitCode::bad_arguments, sentence); }

std::string Variables::text(std::string_view name) const {
  const auto found = environment_.find(name);
  return found == environment_.end() ? std::string() : found->second;
}

std::optional<long> Variables::number(std::string_view name, long least, long most) const {
  const std::string value = text(name);
  if (value.empty()) return std::nullopt;
  const auto parsed = parse_number(value);
  if (!parsed || *parsed < least || *parsed > most) {
    bad_environment(format("%s is %s, but it takes a whole number from %ld to %ld; correct it in the environment",
                           std::string(name).c_str(), in_quotes(value).c_str(), least, most));
  }
  return parsed;
}

long Variables::required(std::string_view name, std::string_view partner, long least, long most) const {
  const auto value = number(name, least, most);
  if (!value) {
    bad_environment(format("%s is set but %s is not: a launcher sets both; set or unset both",
                           std::string(partner).c_str(), std::string(name).c_str()));
  }
  return *value;
}

std::optional<PortRange> Variables::port_range(std::string_view name) const {
  const std::string value = text(name);
  if (value.empty()) return std::nullopt;
  const std::size_t dash = value.find('-');
  const auto first = parse_number(std::string_view(value).substr(0, dash));
  const auto last = dash == std::string::npos ? first : parse_number(std::string_view(value).substr(dash + 1));
  if (!first || !last || *first < 1 || *last > 65535 || *last < *first) {
    bad_environment(format("%s is %s, but it takes two ports such as 21000-28999", std::string(name).c_str(),
                           in_quotes(value).c_str()));
  }
  return PortRange{static_cast<int>(*first), static_cast<int>(*last)};
}

std::string Variables::identity(const std::vector<std::string_view>& names) const {
  std::string all;
  for (const std::string_view name : names) {
    if (has(name)) all += std::string(name) + "=" + text(name) + "\n";
  }
  return all;
}

}  // namespace busbw

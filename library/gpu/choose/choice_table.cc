// Reads and writes tables of algorithms. Their text comes from a file, so it is bounded and strict.
#include "library/gpu/choose/choice_table.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string_view>

#include "library/common/failure.h"
#include "library/gpu/kernels/layout.h"

namespace busbw::gpu {
namespace {

constexpr std::string_view first_line = "busbw-table 1";
constexpr std::size_t max_text = 1 << 20;
constexpr std::size_t max_rules = 4096;
constexpr std::size_t max_line = 512;

struct Type {
  const char* name;
  std::uint64_t bytes;
};

constexpr Type types[ncclNumTypes] = {{"int8", 1},   {"uint8", 1},    {"int32", 4},  {"uint32", 4},
                                      {"int64", 8},  {"uint64", 8},   {"half", 2},   {"float", 4},
                                      {"double", 8}, {"bfloat16", 2}, {"f8e4m3", 1}, {"f8e5m2", 1}};

// For a sentence: a file may hold anything.
// Not `quoted`: std::quoted would be found beside it wherever <iomanip> is read.
std::string in_quotes(std::string_view part) {
  std::string out = "'";
  for (const char c : part.substr(0, 60)) out += c >= ' ' && c <= '~' ? c : '?';
  return out + (part.size() > 60 ? "...'" : "'");
}

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
  throw Failure(ncclInvalidUsage, where + ": " + what);
}

// The part up to `separator`, which is taken away with it.
std::string_view take(std::string_view& rest, char separator) {
  const std::size_t end = std::min(rest.find(separator), rest.size());
  const std::string_view part = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return part;
}

std::optional<std::uint64_t> number(std::string_view digits) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

int number_within(std::string_view digits, int least, int most, const std::string& where, const char* what) {
  const std::optional<std::uint64_t> value = number(digits);
  if (!value || *value < std::uint64_t(least) || *value > std::uint64_t(most)) {
    refuse(where, text("%s is %s; it takes a number from %d to %d.", what, in_quotes(digits).c_str(), least, most));
  }
  return int(*value);
}

std::optional<Collective> collective_of(std::string_view word) {
  for (int i = 0; i < collective_count; ++i) {
    if (word == name(Collective(i))) return Collective(i);
  }
  return std::nullopt;
}

Collective collective_or_refuse(std::string_view word, const std::string& where) {
  if (const std::optional<Collective> found = collective_of(word)) return *found;
  refuse(where, in_quotes(word) +
                    " is no collective; there are all_reduce, all_gather, reduce_scatter, all_to_all and "
                    "broadcast.");
}

std::string kernels_of(std::optional<Collective> collective) {
  std::string list;
  for (const KernelKind& kind : all_kinds) {
    const std::string one = std::string(name(kind.algorithm)) + "/" + name(kind.protocol);
    if ((!collective || kind.collective == *collective) && list.find(one) == std::string::npos) list += one + ", ";
  }
  return list + "nccl";
}

void take_shape(std::string_view shape, Use& use, const std::string& where) {
  const std::string_view channels = take(shape, 'x');
  use.channels = number_within(channels, 1, max_channels, where, "The number of channels");
  use.threads = number_within(shape, 32, max_threads, where, "The number of threads");
  if (use.threads % 32 != 0) {
    refuse(where, text("The number of threads is %d; it takes a multiple of 32, a warp.", use.threads));
  }
}

// algorithm/protocol, with @channelsxthreads or without, or nccl.
Use parse_use(std::string_view word, std::optional<Collective> collective, const std::string& where) {
  Use use;
  if (word == "nccl") {
    use.nccl = true;
    return use;
  }
  const std::size_t at = word.find('@');
  const std::string_view kernel = word.substr(0, at);
  for (const KernelKind& kind : all_kinds) {
    if (collective && kind.collective != *collective) continue;
    if (kernel != std::string(name(kind.algorithm)) + "/" + name(kind.protocol)) continue;
    use.algorithm = kind.algorithm;
    use.protocol = kind.protocol;
    if (at != std::string_view::npos) take_shape(word.substr(at + 1), use, where);
    return use;
  }
  const std::string whose = collective ? std::string(" of ") + name(*collective) : "";
  refuse(where, in_quotes(kernel) + " is no kernel" + whose + "; there are " + kernels_of(collective) + ".");
}

std::uint16_t parse_types(std::string_view list, const std::string& where) {
  std::uint16_t found = 0;
  do {
    const std::string_view word = take(list, ',');
    const auto* type = std::find_if(std::begin(types), std::end(types), [&](const Type& t) { return word == t.name; });
    if (type == std::end(types)) refuse(where, in_quotes(word) + " is no type; types are named as in nccl-tests.");
    found |= std::uint16_t(1u << (type - std::begin(types)));
  } while (!list.empty());
  return found;
}

std::uint64_t parse_bytes(std::string_view digits, const std::string& where) {
  if (const std::optional<std::uint64_t> bytes = number(digits)) return *bytes;
  refuse(where, in_quotes(digits) + " is no number of bytes.");
}

// Which condition of a rule `key` is, as a bit, so that none is given twice.
unsigned take_condition(std::string_view key, std::string_view value, Rule& rule, const std::string& where) {
  if (key == "ranks") {
    rule.ranks = number_within(value, 2, max_ranks, where, "ranks");
    return 1;
  }
  if (key == "type") {
    rule.types = parse_types(value, where);
    return 2;
  }
  if (key == "from") {
    rule.from = parse_bytes(value, where);
    return 4;
  }
  if (key == "to") {
    rule.to = parse_bytes(value, where);
    return 8;
  }
  if (key == "calls") {
    // Tables of before 2026-12 say gradients.
    if (value != "beside" && value != "gradients" && value != "windows") {
      refuse(where, in_quotes(value) + " are no calls; there are beside and windows.");
    }
    rule.calls = value == "windows" ? Calls::windows : Calls::beside_work;
    return 16;
  }
  refuse(where, in_quotes(key) + " is no condition; there are ranks, type, from, to and calls.");
}

Rule parse_rule(std::string_view line, const std::string& gpu, const std::string& where) {
  Rule rule;
  rule.gpu = gpu;
  rule.collective = collective_or_refuse(take(line, ' '), where);
  unsigned given = 0;
  while (line.find(' ') != std::string_view::npos) {
    std::string_view value = take(line, ' ');
    if (value.find('=') == std::string_view::npos) {
      refuse(where, in_quotes(value) + " is not of the form condition=value, with one space between conditions.");
    }
    const std::string_view key = take(value, '=');
    const unsigned condition = take_condition(key, value, rule, where);
    if (given & condition) refuse(where, in_quotes(key) + " is given twice.");
    given |= condition;
  }
  if (rule.from > rule.to) refuse(where, "'from' is more than 'to'.");
  rule.use = parse_use(line, rule.collective, where);
  return rule;
}

// Its text, if that is a table; empty if there is no such file and none is required.
std::string read_table_file(const std::string& path, bool required) {
  std::ifstream file(path, std::ios::binary);
  std::string content;
  if (file) {
    content.resize(max_text + 1);
    file.read(content.data(), std::streamsize(content.size()));
    content.resize(std::size_t(file.gcount()));
  }
  if (required && (!file.is_open() || file.bad() || (content.empty() && !file.eof()))) {
    refuse("BUSBW_TABLE", in_quotes(path) + " cannot be read; name a file that `busbw tune` wrote, or unset it.");
  }
  try {
    if (!content.empty()) parse_table(content);
  } catch (const Failure& failure) {
    throw Failure(failure.code(), path + ": " + failure.what());
  }
  return content;
}

const char* set_or_null(const char* variable) {
  const char* value = std::getenv(variable);
  return value && *value ? value : nullptr;
}

}  // namespace

const char* type_name(ncclDataType_t type) { return type >= 0 && type < ncclNumTypes ? types[type].name : nullptr; }

std::uint64_t type_bytes(ncclDataType_t type) { return type >= 0 && type < ncclNumTypes ? types[type].bytes : 0; }

std::vector<Rule> parse_table(const std::string& table) {
  if (table.size() > max_text) refuse("Table of algorithms", "It is longer than 1 MiB.");
  std::string_view rest = table;
  std::vector<Rule> rules;
  std::string gpu;
  for (int number = 1; number == 1 || !rest.empty(); ++number) {
    const std::string where = text("Table of algorithms, line %d", number);
    const std::string_view line = take(rest, '\n');
    if (line.size() > max_line) refuse(where, "It is longer than 512 characters.");
    if (number == 1) {
      if (line != first_line)
        refuse(where, "It is " + in_quotes(line) + " where '" + std::string(first_line) + "' is due.");
    } else if (line.starts_with("gpu ")) {
      gpu = line == "gpu any" ? "" : line.substr(4);
    } else if (!line.empty() && line[0] != '#') {
      rules.push_back(parse_rule(line, gpu, where));
    }
    if (rules.size() > max_rules) refuse(where, text("There are more than %zu rules.", max_rules));
  }
  return rules;
}

std::vector<std::pair<std::optional<Collective>, Use>> parse_forced(const std::string& forced) {
  std::vector<std::pair<std::optional<Collective>, Use>> all;
  const std::string where = "BUSBW_ALGORITHM";
  if (forced.size() > max_line) refuse(where, "It is longer than 512 characters.");
  std::string_view rest = forced;
  while (!rest.empty()) {
    std::string_view word = take(rest, ',');
    std::optional<Collective> collective;
    if (word.find('=') != std::string_view::npos) collective = collective_or_refuse(take(word, '='), where);
    for (const auto& [earlier, use] : all) {
      if (earlier != collective) continue;
      refuse(where, std::string("There are two algorithms for ") + (collective ? name(*collective) : "all") + ".");
    }
    all.emplace_back(collective, parse_use(word, collective, where));
  }
  return all;
}

std::string write_use(const Use& use) {
  if (use.nccl) return "nccl";
  std::string out = std::string(name(use.algorithm)) + "/" + name(use.protocol);
  if (use.channels) out += text("@%dx%d", use.channels, use.threads);
  return out;
}

namespace {

std::string write_types(std::uint16_t mask) {
  std::string out;
  for (int type = 0; type < ncclNumTypes; ++type) {
    if (!(mask >> type & 1)) continue;
    if (!out.empty()) out += ',';
    out += types[type].name;
  }
  return out;
}

std::string write_rule(const Rule& rule) {
  std::string out = name(rule.collective);
  if (rule.ranks) out += text(" ranks=%d", rule.ranks);
  if (rule.types != any_type) out += " type=" + write_types(rule.types);
  if (rule.from) out += " from=" + std::to_string(rule.from);
  if (rule.to != Rule{}.to) out += " to=" + std::to_string(rule.to);
  if (rule.calls != Calls::any) out += rule.calls == Calls::windows ? " calls=windows" : " calls=beside";
  return out + " " + write_use(rule.use);
}

}  // namespace

std::string write_table(const std::vector<Rule>& rules) {
  std::string out = std::string(first_line) + "\n";
  std::string gpu;
  for (const Rule& rule : rules) {
    if (rule.gpu != gpu) out += "gpu " + (rule.gpu.empty() ? "any" : rule.gpu) + "\n";
    gpu = rule.gpu;
    out += write_rule(rule) + "\n";
  }
  return out;
}

std::string default_table_path() {
  if (const char* config = set_or_null("XDG_CONFIG_HOME")) return std::string(config) + "/busbw/gpu-table.txt";
  if (const char* home = set_or_null("HOME")) return std::string(home) + "/.config/busbw/gpu-table.txt";
  return "";
}

std::string table_text_from_environment() {
  if (const char* named = set_or_null("BUSBW_TABLE")) return read_table_file(named, true);
  const std::string path = default_table_path();
  return path.empty() ? "" : read_table_file(path, false);
}

}  // namespace busbw::gpu

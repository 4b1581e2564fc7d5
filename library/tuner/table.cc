// Reads a table of settings for NCCL; whatever is in the file, the answer is a table or one sentence.
#include "library/tuner/table.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>

#include "library/common/descriptor.h"
#include "library/tuner/facts.h"

namespace busbw::tuner {
namespace {

constexpr std::array<std::string_view, functions> function_names{"broadcast", "reduce", "all_gather", "reduce_scatter",
                                                                 "all_reduce"};
constexpr std::array<std::string_view, algorithms> algorithm_names{
    "tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"};
constexpr std::array<std::string_view, protocols> protocol_names{"ll", "ll128", "simple"};
constexpr std::string_view first_word = "busbw-tuner ";
constexpr int max_channels = 64;  // NCCL's MAXCHANNELS
constexpr std::uint64_t max_chunk = 1 << 30;

// What is wrong, without where.
struct Refusal {
  std::string why;
};

template <std::size_t count>
std::optional<int> index_of(const std::array<std::string_view, count>& names, std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? std::nullopt : std::optional(int(found - names.begin()));
}

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

// Up to a space, which goes too.
std::string_view next_word(std::string_view& rest) {
  const std::size_t end = std::min(rest.find(' '), rest.size());
  const std::string_view word = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return word;
}

bool is_shown(char each) { return each >= ' ' && each <= '~'; }

// Foreign text goes into a log: short, and nothing that a terminal obeys.
std::string shown(std::string_view text) {
  std::string out;
  for (const char each : text.substr(0, 40)) out += is_shown(each) ? each : '?';
  return out;
}

class Reader {
 public:
  Table read(std::string_view text) {
    const std::string_view all = text;
    while (!text.empty()) {
      before_ = all.substr(0, all.size() - text.size());
      const std::size_t end = std::min(text.find('\n'), text.size());
      ++line_;
      if (text.starts_with("\xef\xbb\xbf")) throw Refusal{"it begins with a byte order mark, which an editor added"};
      if (line_ == 1 && !text.starts_with(first_word)) throw Refusal{"its first line is not `busbw-tuner 1`"};
      if (end == text.size()) throw Refusal{"the last line has no end, so that the file was cut off"};
      if (end > max_line_bytes) throw Refusal{"a line of more than 512 bytes is none of a table"};
      read_line(text.substr(0, end));
      text.remove_prefix(end + 1);
    }
    if (!ended_) throw Refusal{"the line `end` is missing, so that the file was cut off"};
    return std::move(table_);
  }
  int line() const { return line_; }

 private:
  void read_line(std::string_view line) {
    if (line_ == 1) return read_first(line);
    if (line.empty() || line.front() == '#') return;
    if (ended_) throw Refusal{"something follows the line `end`"};
    std::string_view rest = line;
    const std::string_view word = next_word(rest);
    if (word == "measured" && rest.empty()) return begin_place();
    if (word == "rule") return read_rule(rest);
    if (word == "end") return read_end(rest);
    read_fact(word, rest);
  }

  void read_first(std::string_view line) {
    if (line.ends_with('\r')) throw Refusal{"its lines end with CR and LF; a table has LF alone"};
    const auto version = number(line.substr(first_word.size()));
    if (!version) throw Refusal{"its first line is not `busbw-tuner 1`"};
    if (*version != table_version) {
      throw Refusal{"it is of version " + shown(line.substr(first_word.size())) + ", and this plugin reads version 1"};
    }
  }

  void begin_place() {
    check_place();
    if (table_.size() == max_places) throw Refusal{"it has more than 256 places"};
    table_.emplace_back();
  }

  // A place without all its facts would hold anywhere.
  void check_place() const {
    if (table_.empty()) return;
    const Place& place = table_.back().place;
    if (place.nccl.empty() || place.gpu.empty() || place.driver.empty() || place.topology.empty() || !place.ranks ||
        !place.nodes) {
      throw Refusal{"a place lacks one of nccl, gpu, driver, topology, ranks and nodes"};
    }
  }

  void read_fact(std::string_view word, std::string_view value) {
    if (table_.empty()) throw Refusal{"a line before the first `measured`: " + shown(word)};
    Measured& here = table_.back();
    if (!here.rules.empty()) throw Refusal{"a fact follows the rules of its place: " + shown(word)};
    if (word == "ranks" || word == "nodes") {
      const auto count = number(value);
      std::uint64_t& fact = word == "ranks" ? here.place.ranks : here.place.nodes;
      if (!count || *count == 0 || *count > 10'000'000 || fact) throw Refusal{"no count of " + shown(word)};
      fact = *count;
      return;
    }
    std::string* fact = word == "nccl"       ? &here.place.nccl
                        : word == "gpu"      ? &here.place.gpu
                        : word == "driver"   ? &here.place.driver
                        : word == "topology" ? &here.place.topology
                                             : nullptr;
    if (!fact) throw Refusal{"a line that is no part of a table: " + shown(word)};
    if (value.empty() || !fact->empty()) throw Refusal{"no one value of " + shown(word)};
    // It is quoted in NCCL's log where it differs from this machine's.
    if (value.size() > 200 || !std::all_of(value.begin(), value.end(), is_shown)) {
      throw Refusal{"a value of " + shown(word) + " that is long or not printable"};
    }
    *fact = value;
  }

  void read_rule(std::string_view rest) {
    if (table_.empty()) throw Refusal{"a rule before the first `measured`"};
    check_place();
    if (++rules_ > max_rules) throw Refusal{"it has more than 10000 rules"};
    Rule rule;
    const std::string_view function = next_word(rest);
    const auto index = index_of(function_names, function);
    if (!index) throw Refusal{"a rule for `" + shown(function) + "`, which no tuner is asked about"};
    rule.function = Function(*index);
    const auto from = number(next_word(rest)), to = number(next_word(rest));
    if (!from || !to || *from > *to) throw Refusal{"a rule without a first and a last size"};
    rule.from = *from, rule.to = *to;
    read_way(next_word(rest), rule);
    while (!rest.empty()) read_detail(next_word(rest), rule);
    if (rule.algorithm == algo_undefined && !rule.channels && !rule.chunk) throw Refusal{"a rule that says nothing"};
    // NCCL takes a plugin's channels of these as they are, whatever the communicator has.
    if ((rule.algorithm == algo_collnet_direct || rule.algorithm == algo_collnet_chain) && rule.channels) {
      throw Refusal{"channels for collnet, which NCCL does not check"};
    }
    table_.back().rules.push_back(rule);
  }

  static void read_way(std::string_view way, Rule& rule) {
    if (way == "default") return;
    const std::size_t slash = std::min(way.find('/'), way.size());
    const auto algorithm = index_of(algorithm_names, way.substr(0, slash));
    const auto protocol = index_of(protocol_names, way.substr(std::min(slash + 1, way.size())));
    if (!algorithm || !protocol) throw Refusal{"no algorithm and protocol: " + shown(way)};
    rule.algorithm = *algorithm, rule.protocol = *protocol;
  }

  static void read_detail(std::string_view word, Rule& rule) {
    const std::size_t sign = std::min(word.find('='), word.size());
    const std::string_view key = word.substr(0, sign), value = word.substr(std::min(sign + 1, word.size()));
    if (key == "gain" && !value.empty()) return;  // for people
    const auto found = number(value);
    if (key == "channels" && found && *found >= 1 && *found <= max_channels && !rule.channels) {
      rule.channels = int(*found);
    } else if (key == "chunk" && found && *found >= 1 && *found <= max_chunk && !rule.chunk) {
      rule.chunk = *found;
    } else {
      throw Refusal{"no detail of a rule: " + shown(word)};
    }
  }

  void read_end(std::string_view rest) {
    check_place();
    const std::size_t space = std::min(rest.find(' '), rest.size());
    if (number(rest.substr(0, space)) != rules_) throw Refusal{"the count behind `end` is not that of its rules"};
    rest.remove_prefix(space);
    // Half of an old table and half of a new one may have as many rules, and a writer that rests between changes
    // nothing.
    constexpr std::string_view sign = " hash=";
    if (!rest.empty() && (!rest.starts_with(sign) || rest.substr(sign.size()) != hash_of(before_))) {
      throw Refusal{"the hash behind `end` is not that of the lines before it: it is half written, or was edited"};
    }
    ended_ = true;
  }

  Table table_;
  std::string_view before_;  // the lines before this one
  int line_ = 0;
  std::size_t rules_ = 0;
  bool ended_ = false;
};

}  // namespace

std::variant<Table, std::string> parse_table(std::string_view text) {
  Reader reader;
  try {
    if (text.empty()) throw Refusal{"it is empty"};
    return reader.read(text);
  } catch (const Refusal& refusal) {
    return (reader.line() ? "line " + std::to_string(reader.line()) + ": " : "") + refusal.why;
  }
}

namespace {

// Half of an old table and half of a new one may be a table too.
bool changed(const struct stat& before, const struct stat& after) {
  return before.st_size != after.st_size || before.st_mtim.tv_sec != after.st_mtim.tv_sec ||
         before.st_mtim.tv_nsec != after.st_mtim.tv_nsec;
}

}  // namespace

ReadTable read_table(const char* path) {
  // What is no file may wait for a writer for ever.
  const Descriptor file(::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file.get() < 0) return {std::string("it cannot be opened: ") + std::strerror(errno), ""};
  struct stat status{};
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return {"it is no regular file", ""};
  if (std::size_t(status.st_size) > max_table_bytes) return {"it is larger than 1 MiB, which no table is", ""};
  std::string text(max_table_bytes + 1, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(file.get(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return {std::string("it cannot be read: ") + std::strerror(errno), ""};
    if (got == 0) break;
    size += std::size_t(got);
  }
  if (size > max_table_bytes) return {"it is larger than 1 MiB, which no table is", ""};
  struct stat after{};
  if (::fstat(file.get(), &after) != 0 || changed(status, after) || size != std::size_t(after.st_size)) {
    return {"it was changed while it was read", ""};
  }
  text.resize(size);
  return {parse_table(text), hash_of(text)};
}

std::string_view name_of(Function function) {
  return function >= 0 && function < functions ? function_names[std::size_t(function)] : "another collective";
}

std::string name_of(int algorithm, int protocol) {
  if (algorithm < 0 || algorithm >= algorithms || protocol < 0 || protocol >= protocols) return "default";
  return std::string(algorithm_names[std::size_t(algorithm)]) + "/" +
         std::string(protocol_names[std::size_t(protocol)]);
}

}  // namespace busbw::tuner

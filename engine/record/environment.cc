// The filter between the environment and what is written to disk.
#include "engine/record/environment.h"

#include <pthread.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <regex>
#include <span>

#include "acting_variables.h"
#include "engine/record/file_hash.h"
#include "engine/record/nccl_conf.h"
#include "engine/record/random_words.h"
#include "secret_rules.h"

namespace busbw {
namespace {

constexpr std::size_t longest_value = 4096;
constexpr off_t largest_hashed = off_t{64} << 20;
constexpr std::size_t longest_searched = 8192;  // for secrets, which a cut could make too short to be known

// The rules that both halves share, made into a header by engine/CMakeLists.txt; see
// python/busbw/base/secret_rules.txt.
using secret_rules::endings;
using secret_rules::harmless;
using secret_rules::known;
using secret_rules::parts;
using secret_rules::tails;
using secret_rules::values;
using secret_rules::words;

bool is_among(std::span<const std::string_view> list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

bool is_secret_word(std::string_view word) {
  return is_among(words, word) || std::any_of(std::begin(endings), std::end(endings),
                                              [&](std::string_view ending) { return word.ends_with(ending); });
}

// In capitals, with one underscore before, between and behind its words.
std::string words_of(std::string_view name) {
  std::string upper = "_";
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)))
      upper += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    else if (upper.back() != '_')
      upper += '_';
  }
  return upper.back() == '_' ? upper : upper + '_';
}

// Where the value behind `NAME=`, `NAME = ` or `NAME: ` begins, and the name before it.
struct Announced {
  std::string_view name;
  std::size_t value = 0;
  bool by_colon = false;
};

Announced announced_at(std::string_view text, std::size_t sign, std::size_t after) {
  const auto is_of_name = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-'; };
  Announced found{.name = {}, .value = sign + 1, .by_colon = text[sign] == ':'};
  std::size_t end = sign;
  if (found.by_colon) {
    if (end > after && (text[end - 1] == '"' || text[end - 1] == '\'')) --end;
    while (found.value < text.size() && text[found.value] == ' ') ++found.value;
    if (found.value == sign + 1) return found;         // a path, an address
  } else if (sign > after && text[sign - 1] == ' ') {  // of a file of settings
    while (end > after && text[end - 1] == ' ') --end;
    while (found.value < text.size() && text[found.value] == ' ') ++found.value;
  }
  std::size_t name = end;
  while (name > after && is_of_name(text[name - 1])) --name;
  found.name = text.substr(name, end - name);
  return found;
}

// The rules of one kind; letters of either case, or as they are.
std::vector<std::regex> compiled(std::span<const std::string_view> rules, bool cases = false) {
  const auto how = std::regex::ECMAScript | std::regex::optimize;
  std::vector<std::regex> made;
  for (const std::string_view rule : rules)
    made.emplace_back(rule.begin(), rule.end(), cases ? how : how | std::regex::icase);
  return made;
}

bool is_whole(const std::vector<std::regex>& patterns, const std::string& text) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::regex& each) { return regex_match(text, each); });
}

// `max_new_tokens=512`, `AuthType=auth/munge`: no secret, although the name is one of a secret.
bool tells_nothing(std::string_view announced, std::string_view shown) {
  static const auto nothing = compiled(secret_rules::nothing), path = compiled(secret_rules::paths, true),
                    counting = compiled(secret_rules::counting), count = compiled(secret_rules::counts),
                    about = compiled(secret_rules::about), camel = compiled(secret_rules::camel, true),
                    plain = compiled(secret_rules::plain);
  constexpr std::size_t longest = 300;
  const std::size_t quote = shown.size() > 1 && (shown.front() == '"' || shown.front() == '\'') ? 1 : 0;
  const std::string name(announced), value(shown.substr(quote, shown.size() - 2 * quote));
  if (name.size() > longest || value.size() > longest) return false;
  if (is_whole(nothing, value) || is_whole(path, value)) return true;
  if (regex_search(name, counting.front()) && is_whole(count, value)) return true;
  return (is_whole(about, name) || is_whole(camel, name)) && is_whole(plain, value);
}

// A word of prose behind a colon is no secret; a name of one letter case alone (`key:`) may be a table's.
bool may_be_secret(const Announced& found, std::string_view value) {
  if (tells_nothing(found.name, value)) return false;
  if (!found.by_colon) return true;
  const bool has_digit = std::any_of(value.begin(), value.end(), [](unsigned char c) { return std::isdigit(c); });
  const bool has_letter = std::any_of(value.begin(), value.end(), [](unsigned char c) { return std::isalpha(c); });
  return found.name.size() > 4 && value.size() >= 6 && has_digit && has_letter;
}

// Where a list ends that a value is, as in [1, 2] and tensor([0, 1]); 0 where it is none.
std::size_t end_of_list(std::string_view text, std::size_t start) {
  std::size_t list = start;
  while (list < text.size() && (std::isalnum(static_cast<unsigned char>(text[list])) || text[list] == '_')) ++list;
  if (list > start) list = list < text.size() && text[list] == '(' ? list + 1 : text.size();
  if (list >= text.size() || text[list] != '[') return 0;
  const std::size_t end = std::min(text.find(']', list), text.size() - 1) + 1;
  return list > start && end < text.size() && text[end] == ')' ? end + 1 : end;
}

// ALL,WANDB_API_KEY=word, as Slurm and Open MPI hand on the variables of a job within one of theirs; `api_key: word`.
std::string hide_assignments(const std::string& text) {
  std::string shown;
  std::size_t start = 0;
  for (std::size_t at, after = 0; (at = text.find_first_of("=:", after)) != text.npos;) {
    const Announced found = announced_at(text, at, start);
    after = found.value;
    if (!is_secret_name(found.name)) continue;
    shown.append(text, start, found.value - start);
    start = found.value;
    const bool is_quoted = start < text.size() && (text[start] == '"' || text[start] == '\'');
    std::size_t end = is_quoted ? text.find(text[start], start + 1) : text.find_first_of(" \t\r\n,;|&\"'", start);
    if (end == text.npos) end = text.size();
    if (is_quoted && end < text.size()) ++end;
    if (const std::size_t list = end_of_list(text, start)) end = list;
    const std::string_view value = std::string_view(text).substr(start, end - start);
    if (!value.empty() && value.front() != '$' && may_be_secret(found, value))
      shown += "***";
    else
      shown += value;
    after = start = end;
  }
  return shown.append(text, start);
}

// What tells nothing behind the name of an option: another option, a path, what a shell puts in, a number, a switch.
bool is_plain(std::string_view value) {
  constexpr std::string_view switches[] = {"true", "false", "yes", "no", "on", "off", "none"};
  if (value.empty() || value.front() == '-' || value.front() == '/' || value.front() == '$') return true;
  if (value.starts_with("file:/") || value.starts_with("env:") || value.starts_with("fd:")) return true;  // of openssl
  return is_among(switches, value) ||
         std::all_of(value.begin(), value.end(), [](unsigned char c) { return std::isdigit(c) || c == '.'; });
}

// --db-password word, -storepass word: what follows an option that a secret is named by.
std::string hide_options(const std::string& text) {
  constexpr std::string_view blanks = " \t\r\n";
  std::string shown;
  std::size_t start = 0;
  for (std::size_t end; start < text.size(); start = end) {
    const std::size_t word = text.find_first_not_of(blanks, start);
    if (word == text.npos) break;
    end = std::min(text.find_first_of(blanks, word), text.size());
    shown.append(text, start, end - start);
    const std::string_view option = std::string_view(text).substr(word, end - word);
    const std::size_t value = text.find_first_not_of(blanks, end);
    if (option.size() < 3 || option.front() != '-' || value == text.npos) continue;
    if (option.find_first_of("=:") != option.npos || !is_secret_name(option)) continue;
    const std::size_t after = std::min(text.find_first_of(blanks, value), text.size());
    const std::string_view shown_now = std::string_view(text).substr(value, after - value);
    if (is_plain(shown_now) || tells_nothing(option, shown_now)) continue;
    shown.append(text, end, value - end).append("***");
    end = after;
  }
  return shown.append(text, std::min(start, text.size()));
}

// What looks like a secret wherever it stands goes; what stands before it, the first group, stays.
std::string hide_values(std::string text) {
  static const auto patterns = compiled(values), patterns_of_tails = compiled(tails);
  if (is_long_hexadecimal(text)) return "***";
  for (const std::regex& pattern : patterns) text = std::regex_replace(text, pattern, "$1***");
  text = hide_options(hide_assignments(hide_random_words(text)));
  for (const std::regex& pattern : patterns_of_tails) text = std::regex_replace(text, pattern, "$1***");
  return text;
}

// The start of a value without secrets. What is hidden makes it shorter: the end of what was searched stays out then.
std::string shown_value(const std::string& value) {
  std::string shown = hide_values(value.substr(0, longest_searched));
  const std::size_t unsure = value.size() > longest_searched && !shown.ends_with("***") ? longest_searched / 8 : 0;
  return shown.substr(0, std::min(longest_value, shown.size() - std::min(unsure, shown.size())));
}

// The regular expressions of the standard library call themselves for each character: the stack that is usual holds
// that, one of `ulimit -s 1024` does not.
constexpr std::size_t stack_for_search = std::size_t{64} << 20;
constexpr std::size_t longest_without_stack = 256;

void* hide_each(void* variables) {
  for (auto& [name, value] : *static_cast<Variables*>(variables)) value = shown_value(value);
  return nullptr;
}

}  // namespace

void hide_secrets(Variables& variables) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_t searcher{};
  const bool began = pthread_attr_setstacksize(&attributes, stack_for_search) == 0 &&
                     pthread_create(&searcher, &attributes, hide_each, &variables) == 0;
  pthread_attr_destroy(&attributes);
  if (began) {
    pthread_join(searcher, nullptr);
    return;
  }
  for (auto& [name, value] : variables)
    if (value.size() > longest_without_stack) value = "***";
  hide_each(&variables);
}

namespace {

// A name without a folder in it is no file: the loader searches for it.
bool is_for_loader(std::string_view variable) { return variable.starts_with("LD_") || variable.ends_with("_PLUGIN"); }

Variables every_variable(const char* const* environment) {
  Variables variables;
  for (const char* const* entry = environment; entry && *entry; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=', 1);  // a name may begin with '=', never end there
    if (equals != text.npos) variables.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

}  // namespace

bool is_secret_name(std::string_view name) {
  std::string upper = words_of(name);
  for (const std::string_view each : known)
    if (upper == '_' + std::string(each) + '_') return false;
  for (const std::string_view each : harmless) {
    const std::string whole = '_' + std::string(each) + '_';
    for (std::size_t at; (at = upper.find(whole)) != upper.npos;) upper.erase(at, whole.size() - 1);
  }
  for (const std::string_view part : parts)
    if (upper.find(part) != upper.npos) return true;
  for (std::size_t start = 1; start < upper.size();) {
    const std::size_t end = upper.find('_', start);
    if (is_secret_word(std::string_view(upper).substr(start, end - start))) return true;
    start = end + 1;
  }
  return false;
}

bool is_relevant_variable(std::string_view name) {
  if (is_secret_name(name)) return false;
  for (const std::string_view prefix : acting_variables::prefixes)
    if (name.starts_with(prefix)) return true;
  return is_among(acting_variables::names, name) || is_among(acting_variables::places, name);
}

Variables relevant_environment(const char* const* environment) {
  Variables variables = every_variable(environment);
  std::erase_if(variables, [](const auto& variable) { return !is_relevant_variable(variable.first); });
  hide_secrets(variables);
  std::sort(variables.begin(), variables.end());
  return variables;
}

Variables full_environment(const char* const* environment) { return every_variable(environment); }

Variables acting_files(const char* const* environment, int version_code) {
  Variables found;
  const auto look_at = [&found](const std::string& name, const std::string& path) {
    struct stat status{};
    if (path.empty() || stat(path.c_str(), &status) != 0) return;
    if (!S_ISREG(status.st_mode) || status.st_size > largest_hashed) return;
    if (const std::string hash = sha256_of_file(path); !hash.empty()) found.emplace_back(name, hash.substr(0, 12));
  };
  std::string home;
  const auto look_behind = [&look_at](const std::string& name, const std::string& value) {
    if (is_among(acting_variables::files, name) && (!is_for_loader(name) || value.find('/') != value.npos))
      look_at("file of " + name, value);
  };
  for (const auto& [name, value] : every_variable(environment)) {
    if (name == "HOME") home = value;
    look_behind(name, value);
  }
  for (const ConfSetting& each : read_confs(environment, version_code))
    if (each.in_force) look_behind(each.name, each.value);
  for (const ConfFile& conf : conf_files(environment, version_code))
    if (conf.name.front() == '~' || conf.name == "/etc/nccl.conf") look_at("file " + conf.name, conf.path);
  for (const std::string_view conf : acting_variables::confs) {
    const bool is_of_user = conf.starts_with('~');
    if (is_of_user && home.empty()) continue;
    look_at("file " + std::string(conf), is_of_user ? home + std::string(conf.substr(1)) : std::string(conf));
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace busbw

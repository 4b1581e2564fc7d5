// The C++ half of the search for random words.
#include "engine/record/random_words.h"

#include <algorithm>
#include <cstddef>

namespace busbw {
namespace {

constexpr std::size_t shortest = 20;
constexpr std::size_t shortest_of_one_case = 32;
constexpr std::size_t looked_back = 100;  // characters before a word that tell what it is
constexpr std::string_view hidden = "***";
// Names that C++ compilers mangle, and public keys of SSH.
constexpr std::string_view harmless_starts[] = {"_Z", "AAAAB3NzaC1", "AAAAC3NzaC1", "AAAAE2VjZHNh"};

enum class Kind { digit, small, capital, other };

Kind kind_of(char c) {
  if (c >= '0' && c <= '9') return Kind::digit;
  if (c >= 'a' && c <= 'z') return Kind::small;
  if (c >= 'A' && c <= 'Z') return Kind::capital;
  return Kind::other;
}

bool is_alphanumeric(char c) { return kind_of(c) != Kind::other; }

bool is_of_word(char c) { return is_alphanumeric(c) || std::string_view("_~+/-").find(c) != std::string_view::npos; }

bool is_hexadecimal(std::string_view piece) {
  if (piece.starts_with("0x")) piece.remove_prefix(2);
  const auto all = [&](char first, char last) {
    return std::all_of(piece.begin(), piece.end(),
                       [&](char c) { return kind_of(c) == Kind::digit || (c >= first && c <= last); });
  };
  return all('a', 'f') || all('A', 'F');
}

// The word without its marks and its hexadecimal pieces: those name GPUs, commits and containers.
std::string body_of(std::string_view word) {
  std::string body;
  for (std::size_t start = 0; start < word.size();) {
    std::size_t end = start;
    while (end < word.size() && is_alphanumeric(word[end])) ++end;
    if (const std::string_view piece = word.substr(start, end - start); !is_hexadecimal(piece)) body += piece;
    start = end + 1;
  }
  return body;
}

bool starts_with_digest(std::string_view text) {
  std::string small(text);
  for (char& c : small)
    if (kind_of(c) == Kind::capital) c = static_cast<char>(c - 'A' + 'a');
  if (small == "md5") return true;
  return small.starts_with("sha") && small.size() > 3 && small.size() <= 6 &&
         std::all_of(small.begin() + 3, small.end(), [](char c) { return kind_of(c) == Kind::digit; });
}

// "sha256:" right before a word.
bool ends_with_digest(std::string_view before) {
  if (!before.empty() && (before.back() == ':' || before.back() == '-')) before.remove_suffix(1);
  for (const std::size_t length : {3U, 4U, 5U, 6U})
    if (before.size() >= length && starts_with_digest(before.substr(before.size() - length))) return true;
  return false;
}

// "ocid1.instance.oc1.iad." right before a word: what a resource of Oracle's cloud is called.
bool ends_as_resource(std::string_view before) {
  const auto is_of_name = [](char c) {
    return kind_of(c) == Kind::digit || kind_of(c) == Kind::small || c == '.' || c == '-';
  };
  std::size_t begin = before.size();
  while (begin > 0 && is_of_name(before[begin - 1])) --begin;
  if (begin > 0 && (before[begin - 1] == '_' || is_alphanumeric(before[begin - 1]))) return false;
  const std::string_view name = before.substr(begin);
  constexpr std::string_view start = "ocid1.";
  return name.starts_with(start) && name.ends_with('.') && name.size() >= start.size() + 4 &&
         name.size() <= start.size() + 80;
}

bool is_of_small_letters(std::string_view word) {
  return std::all_of(word.begin(), word.end(),
                     [](char c) { return kind_of(c) == Kind::digit || kind_of(c) == Kind::small; });
}

std::string hide_pieces(std::string_view word) {
  std::string shown;
  for (std::size_t start = 0; start < word.size();) {
    std::size_t end = word.find_first_of("/+", start);
    if (end == word.npos) end = word.size();
    const std::string_view piece = word.substr(start, end - start);
    shown += piece.size() >= shortest && is_random(piece, false) ? hidden : piece;
    if (end < word.size()) shown += word[end];
    start = end + 1;
  }
  return shown;
}

std::string hide_word(std::string_view word, std::string_view before) {
  const auto begins = [&](std::string_view start) { return word.starts_with(start); };
  if (std::any_of(std::begin(harmless_starts), std::end(harmless_starts), begins) || ends_with_digest(before) ||
      starts_with_digest(word.substr(0, word.find('-'))))
    return std::string(word);
  if (is_of_small_letters(word) && ends_as_resource(before)) return std::string(word);
  const auto marks =
      static_cast<std::size_t>(std::count_if(word.begin(), word.end(), [](char c) { return c == '/' || c == '+'; }));
  if (word[0] != '/' && word[0] != '~' && marks * 8 <= word.size() && is_random(word, marks == 0))
    return std::string(hidden);
  if (marks == 0) return std::string(word);
  // A part of a path: one of lower case alone may be a package's hash. Paths seldom hold a +, numbers in base 64 do.
  const std::string shown = hide_pieces(word);
  return shown != word && word.find('+') != word.npos ? std::string(hidden) : shown;
}

}  // namespace

bool is_random(std::string_view word, bool of_one_case) {
  const auto joints = std::count_if(word.begin(), word.end(), [](char c) { return c == '_' || c == '-'; });
  // More than drawn words have: the name of a kernel, with its sizes and types.
  if (static_cast<std::size_t>(joints) * 9 > word.size()) return false;
  const std::string body = body_of(word);
  std::size_t changes = 0, groups = 0, digits = 0, small = 0, beyond_hex = 0;
  for (std::size_t at = 0; at < body.size(); ++at) {
    const Kind kind = kind_of(body[at]);
    const bool begins = at == 0 || kind_of(body[at - 1]) != kind;
    changes += at > 0 && begins;
    groups += begins && kind == Kind::digit;
    digits += kind == Kind::digit;
    small += kind == Kind::small;
    beyond_hex += body[at] >= 'g' && body[at] <= 'z';
  }
  const std::size_t capital = body.size() - digits - small;
  if (small > 0 && capital > 0)
    return body.size() >= shortest && std::min(capital, beyond_hex) >= 2 && groups >= 2 &&
           100 * changes >= 42 * (body.size() - 1);
  return of_one_case && body.size() >= shortest_of_one_case && groups >= 4 && 100 * changes >= 15 * (body.size() - 1);
}

std::string hide_random_words(std::string_view text) {
  std::string shown;
  for (std::size_t start = 0; start < text.size();) {
    std::size_t end = start;
    while (end < text.size() && is_of_word(text[end])) ++end;
    const std::string_view word = text.substr(start, end - start);
    const std::size_t before = start > looked_back ? start - looked_back : 0;
    shown += word.size() >= shortest ? hide_word(word, text.substr(before, start - before)) : std::string(word);
    if (end < text.size()) shown += text[end];
    start = end + 1;
  }
  return shown;
}

bool is_long_hexadecimal(std::string_view value) { return value.size() >= 32 && is_hexadecimal(value); }

}  // namespace busbw

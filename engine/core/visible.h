// Text from elsewhere (a library's error, a device's name, a path) as a terminal may show it: nothing in it acts.
#pragma once

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "engine/core/error.h"

namespace busbw {

// What turns the direction of writing, joins, hides or ends a line in Unicode (its classes Cf, Cs, Co, Zl and Zp).
inline bool acts_unseen(char32_t c) {
  constexpr std::pair<char32_t, char32_t> ranges[] = {
      {0xAD, 0xAD},       {0x600, 0x605},     {0x61C, 0x61C},     {0x6DD, 0x6DD},     {0x70F, 0x70F},
      {0x890, 0x891},     {0x8E2, 0x8E2},     {0x180E, 0x180E},   {0x200B, 0x200F},   {0x2028, 0x202E},
      {0x2060, 0x206F},   {0xD800, 0xF8FF},   {0xFEFF, 0xFEFF},   {0xFFF9, 0xFFFB},   {0x110BD, 0x110BD},
      {0x110CD, 0x110CD}, {0x13430, 0x1343F}, {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A}, {0xE0000, 0x10FFFF}};
  return std::any_of(std::begin(ranges), std::end(ranges),
                     [c](const auto& range) { return c >= range.first && c <= range.second; });
}

// The character of two to four bytes of UTF-8 that begins there, and its bytes; 0 bytes where none does.
inline std::pair<char32_t, std::size_t> wide_character(std::string_view text, std::size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  const std::size_t length = first >= 0xF0 && first < 0xF8 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first >= 0xF8 || at + length > text.size()) return {0, 0};
  char32_t c = first & (0xFFU >> (length + 1));
  for (std::size_t next = at + 1; next < at + length; ++next) {
    if ((text[next] & 0xC0) != 0x80) return {0, 0};
    c = (c << 6) | (static_cast<unsigned char>(text[next]) & 0x3FU);
  }
  return {c, length};
}

// Control characters, C1 in UTF-8 (0xC2 0x80 to 0xC2 0x9F) included, are spelled out: `\x1b`, and so are those that act
// unseen: `\u202e`. Line ends and tabs stay.
inline std::string visible(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const auto [c, length] = wide_character(text, at);
    if (length > 0 && (c < 0xA0 || acts_unseen(c))) {
      const auto number = static_cast<unsigned>(c);
      shown += c < 0xA0 ? format("\\x%02x", number) : format(c < 0x10000 ? "\\u%04x" : "\\U%08x", number);
      at += length - 1;
    } else if ((byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F) {
      shown += format("\\x%02x", static_cast<unsigned>(byte));
    } else {
      shown += static_cast<char>(byte);
    }
  }
  return shown;
}

// The end of `text.substr(0, at)` that does not cut a character of UTF-8 in two.
inline std::size_t whole_characters(std::string_view text, std::size_t at) {
  for (int back = 0; back < 3 && at > 0 && at < text.size() && (text[at] & 0xC0) == 0x80; ++back) --at;
  return at;
}

inline std::string short_line(std::string_view line) {
  constexpr std::size_t most = 1500, head = 1100, tail = 300;
  if (line.size() <= most) return std::string(line);
  const std::size_t last = whole_characters(line, line.size() - tail);
  return std::string(line.substr(0, whole_characters(line, head))) + " ... " + std::string(line.substr(last));
}

// A sentence for a person, whatever it quotes: visible, with `...` for the middle of a line of more than 1500 bytes and
// for what follows the twentieth line. Python's half is python/busbw/base/sentences.py; both follow the same rule.
inline std::string bounded_sentence(std::string_view sentence) {
  constexpr int most_lines = 20;
  std::string shown;
  for (int line = 0;; ++line) {
    if (line == most_lines) return shown + "...";
    const std::size_t end = sentence.find('\n');
    shown += short_line(visible(short_line(sentence.substr(0, end))));
    if (end == std::string_view::npos) return shown;
    shown += '\n';
    sentence.remove_prefix(end + 1);
  }
}

}  // namespace busbw

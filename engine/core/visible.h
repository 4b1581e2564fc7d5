// Text from elsewhere (a library's error, a device's name, a path) as a terminal may show it: nothing in it acts.
#pragma once

#include <string>
#include <string_view>

#include "engine/core/error.h"

namespace busbw {

// Control characters, C1 in UTF-8 (0xC2 0x80 to 0xC2 0x9F) included, are spelled out: `\x1b`. Line ends and tabs stay.
inline std::string visible(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const auto next = static_cast<unsigned char>(at + 1 < text.size() ? text[at + 1] : 0);
    if (byte == 0xC2 && next >= 0x80 && next <= 0x9F) {
      shown += format("\\x%02x", static_cast<unsigned>(next));
      ++at;
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

// Escapes text and prints numbers so that any JSON reader takes them.
#include "engine/record/json.h"

#include <charconv>
#include <cmath>

#include "engine/core/error.h"

namespace busbw {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";  // U+FFFD, for bytes that are no UTF-8

bool continues(std::string_view text, std::size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
}

// Bytes of the UTF-8 character at `at`, or 0 where there is none: overlong forms and surrogates are none.
std::size_t character_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(at);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xC2 && first <= 0xDF   ? 2
                             : (first & 0xF0) == 0xE0         ? 3
                             : first >= 0xF0 && first <= 0xF4 ? 4
                                                              : 0;
  for (std::size_t i = 1; i < length; ++i)
    if (!continues(text, at + i)) return 0;
  if (length < 3) return length;
  const unsigned char second = byte(at + 1);
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool surrogate = first == 0xED && second >= 0xA0;
  const bool too_large = first == 0xF4 && second >= 0x90;
  return overlong || surrogate || too_large ? 0 : length;
}

void append_escaped(std::string& out, char c) {
  switch (c) {
    case '"':
      out += "\\\"";
      break;
    case '\\':
      out += "\\\\";
      break;
    case '\n':
      out += "\\n";
      break;
    case '\t':
      out += "\\t";
      break;
    case '\r':
      out += "\\r";
      break;
    default:
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F)
        out += format("\\u%04x", static_cast<unsigned char>(c));
      else
        out += c;
  }
}

void append_string(std::string& out, std::string_view text) {
  out += '"';
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = character_length(text, at);
    if (length == 1)
      append_escaped(out, text[at]);
    else
      out += length == 0 ? replacement : text.substr(at, length);
    at += length == 0 ? 1 : length;
  }
  out += '"';
}

}  // namespace

JsonText& JsonText::key(std::string_view name) {
  separate();
  append_string(text_, name);
  text_ += ':';
  first_ = true;  // the value follows the colon without a comma
  return *this;
}

JsonText& JsonText::value(std::string_view text) {
  separate();
  append_string(text_, text);
  return *this;
}

JsonText& JsonText::value(double number) {
  if (!std::isfinite(number)) return null();
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  return raw(std::string_view(digits, static_cast<std::size_t>(end - digits)));
}

JsonText& JsonText::open(char bracket) {
  separate();
  text_ += bracket;
  first_ = true;
  return *this;
}

JsonText& JsonText::close(char bracket) {
  text_ += bracket;
  first_ = false;
  return *this;
}

JsonText& JsonText::raw(std::string_view text) {
  separate();
  text_ += text;
  return *this;
}

void JsonText::separate() {
  if (!first_) text_ += ',';
  first_ = false;
}

}  // namespace busbw

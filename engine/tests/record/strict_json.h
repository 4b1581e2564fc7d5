// A checker of JSON as RFC 8259 has it, written apart from the writer that it checks.
#pragma once

#include <cctype>
#include <string_view>

namespace busbw {

class StrictJson {
 public:
  static bool accepts(std::string_view text) {
    StrictJson json(text);
    json.blanks();
    if (!json.value(0)) return false;
    json.blanks();
    return json.at_ == text.size();
  }

 private:
  explicit StrictJson(std::string_view text) : text_(text) {}

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char c) { return peek() == c && at_ < text_.size() ? (++at_, true) : false; }
  bool take(std::string_view word) {
    return text_.substr(at_, word.size()) == word ? (at_ += word.size(), true) : false;
  }
  void blanks() {
    while (peek() == ' ' || peek() == '\n' || peek() == '\t' || peek() == '\r') ++at_;
  }
  bool digits() {
    const std::size_t start = at_;
    while (std::isdigit(static_cast<unsigned char>(peek()))) ++at_;
    return at_ > start;
  }

  bool value(int depth) {
    if (depth > 64) return false;
    switch (peek()) {
      case '{':
        return sequence('}', depth, true);
      case '[':
        return sequence(']', depth, false);
      case '"':
        return string();
      default:
        return take("true") || take("false") || take("null") || number();
    }
  }

  bool sequence(char end, int depth, bool keyed) {
    ++at_;
    blanks();
    if (take(end)) return true;
    do {
      blanks();
      if (keyed && !(string() && (blanks(), take(':')))) return false;
      blanks();
      if (!value(depth + 1)) return false;
      blanks();
    } while (take(','));
    return take(end);
  }

  bool string() {
    if (!take('"')) return false;
    while (at_ < text_.size()) {
      const auto c = static_cast<unsigned char>(text_[at_++]);
      if (c == '"') return true;
      if (c < 0x20) return false;
      if (c == '\\' && !escape()) return false;
      if (c >= 0x80 && !utf8(c)) return false;
    }
    return false;
  }

  bool escape() {
    if (take('u')) {
      for (int i = 0; i < 4; ++i)
        if (!std::isxdigit(static_cast<unsigned char>(peek())) || ++at_ > text_.size()) return false;
      return true;
    }
    return at_ < text_.size() && std::string_view("\"\\/bfnrt").find(text_[at_++]) != std::string_view::npos;
  }

  // Decodes and compares with the smallest code point of that length, so that overlong forms are refused.
  bool utf8(unsigned char first) {
    const int more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : first >= 0xC0 ? 1 : 0;
    if (more == 0 || first > 0xF7) return false;
    unsigned long point = first & (0x3Fu >> more);
    for (int i = 0; i < more; ++i) {
      const auto next = static_cast<unsigned char>(peek());
      if ((next & 0xC0) != 0x80) return false;
      point = point << 6 | (next & 0x3F);
      ++at_;
    }
    constexpr unsigned long smallest[] = {0, 0x80, 0x800, 0x10000};
    return point >= smallest[more] && point <= 0x10FFFF && !(point >= 0xD800 && point <= 0xDFFF);
  }

  bool number() {
    take('-');
    if (!take('0') && !digits()) return false;
    if (take('.') && !digits()) return false;
    if (take('e') || take('E')) {
      if (!take('+')) take('-');
      if (!digits()) return false;
    }
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace busbw

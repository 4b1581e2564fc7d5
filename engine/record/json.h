// Writes strict JSON into a string: no NaN, no infinity, valid UTF-8 whatever the input was.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace busbw {

// Values follow each other; commas are put in where they belong. The caller balances begin and end.
class JsonText {
 public:
  JsonText& begin_object() { return open('{'); }
  JsonText& end_object() { return close('}'); }
  JsonText& begin_array() { return open('['); }
  JsonText& end_array() { return close(']'); }
  JsonText& key(std::string_view name);

  JsonText& value(std::string_view text);
  JsonText& value(const char* text) { return value(std::string_view(text)); }
  JsonText& value(bool truth) { return raw(truth ? "true" : "false"); }
  JsonText& value(double number);  // the shortest text that reads back the same; NaN and infinity become null
  JsonText& value(std::integral auto number) { return raw(std::to_string(number)); }
  JsonText& null() { return raw("null"); }

  template <typename T>
  JsonText& value(const std::optional<T>& maybe) {
    return maybe ? value(*maybe) : null();
  }
  template <typename T>
  JsonText& value(const std::vector<T>& items) {
    begin_array();
    for (const T& item : items) value(item);
    return end_array();
  }

  template <typename T>
  JsonText& member(std::string_view name, const T& item) {
    return key(name).value(item);
  }
  JsonText& null_member(std::string_view name) { return key(name).null(); }

  const std::string& text() const { return text_; }

 private:
  JsonText& open(char bracket);
  JsonText& close(char bracket);
  JsonText& raw(std::string_view text);
  void separate();

  std::string text_;
  bool first_ = true;  // nothing stands before the next value at this level
};

}  // namespace busbw

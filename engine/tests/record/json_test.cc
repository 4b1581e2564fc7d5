// What the JSON writer makes of text and numbers.
#include "engine/record/json.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <random>

#include "engine/tests/record/strict_json.h"

namespace busbw {
namespace {

template <typename T>
std::string text_of_value(const T& value) {
  JsonText json;
  return json.value(value).text();
}

TEST(StrictJsonChecker, TellsValidFromInvalid) {
  for (const char* text : {"{}", "[1,2.5e-3,-0]", "\"a\\u00e9\xC3\xA9\"", " {\"a\": [null, true]} "})
    EXPECT_TRUE(StrictJson::accepts(text)) << text;
  for (const char* text : {"", "{", "[1,]", "{\"a\"}", "NaN", "inf", "01", "1.", "\"\xFF\"", "\"\xC0\x80\"",
                           "\"\xED\xA0\x80\"", "\"\n\"", "\"\\x\"", "{}x", "[1 2]"})
    EXPECT_FALSE(StrictJson::accepts(text)) << text;
}

TEST(JsonText, PutsCommasWhereTheyBelong) {
  JsonText json;
  json.begin_object().member("a", 1).key("b").begin_array().value(1).value("x").begin_object().end_object().end_array();
  json.null_member("c").member("d", true).end_object();
  EXPECT_EQ(json.text(), R"({"a":1,"b":[1,"x",{}],"c":null,"d":true})");
}

TEST(JsonText, WritesNestedVectorsAndAbsentValues) {
  EXPECT_EQ(text_of_value(std::vector<std::vector<double>>{{1, 2.5}, {}}), "[[1,2.5],[]]");
  EXPECT_EQ(text_of_value(std::optional<int>()), "null");
  EXPECT_EQ(text_of_value(std::optional<int>(3)), "3");
  EXPECT_EQ(text_of_value(std::numeric_limits<std::uint64_t>::max()), "18446744073709551615");
}

TEST(JsonText, WritesNoNumberThatJsonDoesNotHave) {
  for (const double value : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                             -std::numeric_limits<double>::infinity()})
    EXPECT_EQ(text_of_value(value), "null");
}

TEST(JsonText, WritesNumbersThatReadBackTheSame) {
  std::mt19937_64 random(4);
  for (int i = 0; i < 20'000; ++i) {
    const double value = std::bit_cast<double>(random());
    if (!(std::abs(value) <= std::numeric_limits<double>::max())) continue;
    const std::string text = text_of_value(value);
    EXPECT_TRUE(StrictJson::accepts(text)) << text;
    EXPECT_EQ(std::strtod(text.c_str(), nullptr), value);
  }
}

TEST(JsonText, EscapesControlCharactersAndKeepsUtf8) {
  EXPECT_EQ(text_of_value("a\"b\\c\n\t\r\x01/\x7F"), R"("a\"b\\c\n\t\r\u0001/\u007f")");
  EXPECT_EQ(text_of_value("caf\xC3\xA9 \xF0\x9F\x98\x80"), "\"caf\xC3\xA9 \xF0\x9F\x98\x80\"");
  EXPECT_EQ(text_of_value(std::string_view("\0x", 2)), R"("\u0000x")");
}

TEST(JsonText, ReplacesBytesThatAreNoUtf8) {
  const std::string mark = "\xEF\xBF\xBD";
  EXPECT_EQ(text_of_value("a\xFF"), "\"a" + mark + "\"");
  EXPECT_EQ(text_of_value("\xC3"), "\"" + mark + "\"");
  EXPECT_EQ(text_of_value("\xC0\x80"), "\"" + mark + mark + "\"");
  EXPECT_EQ(text_of_value("\xED\xA0\x80"), "\"" + mark + mark + mark + "\"");
}

TEST(JsonText, IsStrictForRandomBytes) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes;
    for (std::size_t length = random() % 24; length > 0; --length) bytes += static_cast<char>(random());
    EXPECT_TRUE(StrictJson::accepts(text_of_value(bytes)));
  }
}

}  // namespace
}  // namespace busbw

// Long words that look random: what a token is, under whatever name it stands.
#pragma once

#include <string>
#include <string_view>

namespace busbw {

// Whether a word has letters of both cases and digits in no order, or (if asked) one case and digits so; the rule and
// its figures are those of is_random in python/busbw/base/secrets.py.
bool is_random(std::string_view word, bool of_one_case);

// The text with "***" for each such word; digests ("sha256:..."), mangled C++ names and names of
// Oracle's resources (ocid1...) stay.
std::string hide_random_words(std::string_view text);

// Whether a whole value is one hexadecimal number of at least 32 digits.
bool is_long_hexadecimal(std::string_view value);

}  // namespace busbw

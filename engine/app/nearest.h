// "Did you mean ...?": the name that a mistyped word was most likely meant to be.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace busbw {

// Letters to insert, delete or replace, and neighbours to swap, to turn one word into the other.
std::size_t edit_distance(std::string_view a, std::string_view b);

// The closest name, or nothing where none is close.
std::string nearest(std::string_view word, const std::vector<std::string_view>& names);

// What ends the clause that refuses a word: "; did you mean NAME? " or, where no name is close, ". ".
std::string did_you_mean(std::string_view word, const std::vector<std::string_view>& names);

// "a, b and c".
std::string listed(const std::vector<std::string_view>& names);

}  // namespace busbw

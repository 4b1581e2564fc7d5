// Edit distance over the handful of names that an option takes.
#include "engine/app/nearest.h"

#include <algorithm>
#include <numeric>

namespace busbw {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

std::string nearest(std::string_view word, const std::vector<std::string_view>& names) {
  constexpr std::size_t longest_word = 64;  // what is longer was not meant to be a name
  if (word.empty() || word.size() > longest_word || names.empty()) return {};
  const auto by_distance = [&](std::string_view x, std::string_view y) {
    return edit_distance(word, x) < edit_distance(word, y);
  };
  const std::string_view best = *std::min_element(names.begin(), names.end(), by_distance);
  const std::size_t tolerated = std::max<std::size_t>(1, std::min(word.size(), best.size()) / 3);
  return edit_distance(word, best) <= tolerated ? std::string(best) : std::string();
}

std::string did_you_mean(std::string_view word, const std::vector<std::string_view>& names) {
  const std::string best = nearest(word, names);
  return best.empty() ? std::string(". ") : "; did you mean " + best + "? ";
}

std::string listed(const std::vector<std::string_view>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " and " : ", ";
    text += names[i];
  }
  return text;
}

}  // namespace busbw

// Edit distance over the handful of names that an option takes.
#include "engine/app/nearest.h"

#include <algorithm>
#include <numeric>

namespace busbw {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Row i holds the distances of a's first i letters to every beginning of b.
  std::vector<std::vector<std::size_t>> rows(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  std::iota(rows[0].begin(), rows[0].end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    rows[i][0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = rows[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      rows[i][j] = std::min({rows[i - 1][j] + 1, rows[i][j - 1] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) rows[i][j] = std::min(rows[i][j], rows[i - 2][j - 2] + 1);
    }
  }
  return rows[a.size()][b.size()];
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

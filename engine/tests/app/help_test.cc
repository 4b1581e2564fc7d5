// The help text and the reference page name every option.
#include "engine/app/help.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "engine/app/option_list.h"

namespace busbw {
namespace {

std::string page(const char* name) {
  const auto root = std::filesystem::path(BUSBW_TEST_ROOT);
  std::ifstream file(root / "docs" / "reference" / name);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(Usage, NamesEveryOptionWithItsDefault) {
  const std::string text = usage("all_reduce_perf");
  for (const Option& option : options()) {
    EXPECT_NE(text.find("--" + std::string(option.name)), std::string::npos) << option.name;
    if (option.letter) {
      EXPECT_NE(text.find(std::string("  -") + option.letter + ", --"), std::string::npos) << option.letter;
    }
  }
  EXPECT_NE(text.find("(default 32M)"), std::string::npos);
}

TEST(Usage, FitsIntoEightyColumns) {
  for (const char* program :
       {"all_reduce_perf", "reduce_scatter_perf_mpi", "busbw-engine", "busbw-engine all_gather"}) {
    std::istringstream lines(usage(program));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
  }
}

TEST(Usage, ListsTheCollectivesWhereNoneIsNamed) {
  EXPECT_NE(usage("busbw-engine").find("hypercube"), std::string::npos);
  EXPECT_EQ(usage("all_reduce_perf").find("hypercube"), std::string::npos);
}

TEST(Options, HaveDistinctNamesAndLetters) {
  std::set<std::string_view> names;
  std::set<char> letters;
  for (const Option& option : options()) {
    EXPECT_TRUE(names.insert(option.name).second) << option.name;
    if (option.letter) {
      EXPECT_TRUE(letters.insert(option.letter).second) << option.letter;
    }
  }
}

TEST(OptionsPage, DescribesEveryOption) {
  const std::string text = page("options.md");
  ASSERT_FALSE(text.empty()) << "docs/reference/options.md cannot be read";
  for (const Option& option : options()) {
    const std::string letter = option.letter ? std::string("`-") + option.letter + "`, " : "";
    EXPECT_NE(text.find("| " + letter + "`--" + std::string(option.name)), std::string::npos) << option.name;
  }
}

}  // namespace
}  // namespace busbw

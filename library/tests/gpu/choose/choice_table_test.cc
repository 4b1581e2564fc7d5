// The text of tables: read, written, and refused.
#include "library/gpu/choose/choice_table.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "library/common/failure.h"
#include "library/gpu/kernels/layout.h"

namespace busbw::gpu {
namespace {

std::string refusal(const std::string& table) {
  try {
    parse_table(table);
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "";
}

Rule random_rule(std::mt19937_64& random) {
  const KernelKind kind = kernel_kinds[random() % std::size(kernel_kinds)];
  Rule rule{.collective = kind.collective};
  const char* gpus[] = {"", "NVIDIA H200", "Other"};
  rule.gpu = gpus[random() % 3];
  if (random() % 2) rule.ranks = int(2 + random() % (max_ranks - 1));
  if (random() % 2) rule.types = std::uint16_t(1 + random() % any_type);
  rule.from = random() >> (random() % 64);
  rule.to = random() % 2 ? rule.from + random() % (~rule.from) : Rule{}.to;
  rule.use = {.nccl = random() % 4 == 0};
  if (rule.use.nccl) return rule;
  rule.use.algorithm = kind.algorithm;
  rule.use.protocol = kind.protocol;
  rule.calls = Calls(random() % 3);
  if (random() % 2) {
    rule.use.channels = int(1 + random() % max_channels);
    rule.use.threads = int(32 * (1 + random() % (max_threads / 32)));
  }
  return rule;
}

TEST(TableText, IsReadAsItWasWritten) {
  std::mt19937_64 random(7);
  for (int table = 0; table < 200; ++table) {
    std::vector<Rule> rules;
    for (std::uint64_t i = random() % 20; i > 0; --i) rules.push_back(random_rule(random));
    EXPECT_EQ(parse_table(write_table(rules)), rules);
  }
}

// python/tests/tune compares what `busbw tune` writes with the same file.
TEST(TableText, OfBusbwTuneIsRead) {
  std::ifstream file(std::filesystem::path(BUSBW_TEST_ROOT) / "library/tests/gpu/tuned-table.txt");
  const std::string table{std::istreambuf_iterator<char>(file), {}};
  const std::vector<Rule> rules = parse_table(table);
  ASSERT_EQ(rules.size(), 4u);
  EXPECT_EQ(rules[1].gpu, "NVIDIA H200");
  EXPECT_EQ(rules[1].from, 92682u);
  EXPECT_EQ(rules[3], (Rule{.collective = Collective::broadcast,
                            .use = {.algorithm = Algorithm::direct, .protocol = Protocol::ll}}));
  EXPECT_EQ(parse_table(write_table(rules)), rules);
}

TEST(TableText, WithTheOldNameOfCallsBesideWorkIsRead) {
  const std::string old = "busbw-table 1\nall_reduce calls=gradients nccl\n";
  EXPECT_EQ(parse_table(old).at(0).calls, Calls::beside_work);
  EXPECT_NE(write_table(parse_table(old)).find(" calls=beside nccl\n"), std::string::npos);
}

TEST(TableText, NamesTheLineThatIsWrong) {
  const std::string wrong[][2] = {
      {"all_reduce nccl\n", "where 'busbw-table 1' is due"},
      {"busbw-table 2\n", "where 'busbw-table 1' is due"},
      {"busbw-table 1\n\nall_reduce\n", "line 3: '' is no kernel of all_reduce"},
      {"busbw-table 1\nall_reduce  nccl\n", "line 2: '' is not of the form condition=value"},
      {"busbw-table 1\nalltoall nccl", "line 2: 'alltoall' is no collective"},
      {"busbw-table 1\nall_reduce ranks=1 nccl", "line 2: ranks is '1'; it takes a number from 2 to 8."},
      {"busbw-table 1\nall_reduce ranks=4 ranks=4 nccl", "'ranks' is given twice"},
      {"busbw-table 1\nall_reduce type=fp32 nccl", "'fp32' is no type"},
      {"busbw-table 1\nall_reduce from=-1 nccl", "'-1' is no number of bytes"},
      {"busbw-table 1\nall_reduce to=99999999999999999999 nccl", "is no number of bytes"},
      {"busbw-table 1\nall_reduce from=2 to=1 nccl", "'from' is more than 'to'"},
      {"busbw-table 1\nall_reduce color=red nccl", "'color' is no condition"},
      {"busbw-table 1\nall_reduce calls=all nccl", "'all' are no calls; there are beside and windows."},
      {"busbw-table 1\nall_gather two_shot/ll",
       "there are direct/ll, direct/sentinel, direct/simple, direct/copy, staged/copy, nccl."},
      {"busbw-table 1\nall_reduce one_shot/ll@4x513", "from 32 to 512"},
      {"busbw-table 1\r\nall_reduce nccl", "'busbw-table 1?'"},
  };
  for (const auto& [table, expected] : wrong) {
    const std::string sentence = refusal(table);
    EXPECT_NE(sentence.find(expected), std::string::npos) << table << ": " << sentence;
    EXPECT_TRUE(sentence.starts_with("Table of algorithms")) << sentence;
  }
}

TEST(TableText, IsBoundedInEveryDirection) {
  EXPECT_NE(refusal("busbw-table 1\n" + std::string(2 << 20, '#')).find("1 MiB"), std::string::npos);
  EXPECT_NE(refusal("busbw-table 1\n# " + std::string(600, 'x')).find("512 characters"), std::string::npos);
  std::string many = "busbw-table 1\n";
  for (int i = 0; i < 4097; ++i) many += "all_reduce nccl\n";
  EXPECT_NE(refusal(many).find("more than 4096 rules"), std::string::npos);
}

// Damage of every kind either leaves a table or is refused with a printable sentence: nothing else comes out.
TEST(TableText, IsRefusedOrReadWhateverItHolds) {
  std::mt19937_64 random(11);
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string table = write_table({random_rule(random), random_rule(random)});
    for (std::uint64_t edits = 1 + random() % 3; edits > 0; --edits) {
      const std::size_t at = random() % table.size();
      switch (random() % 3) {
        case 0:
          table[at] = char(random());
          break;
        case 1:
          table.insert(at, table.substr(random() % table.size(), random() % 40));
          break;
        default:
          table.erase(at, random() % 8);
      }
      if (table.empty()) table.push_back('x');
    }
    try {
      const std::vector<Rule> rules = parse_table(table);
      EXPECT_EQ(parse_table(write_table(rules)), rules);
    } catch (const Failure& failure) {
      ++refused;
      for (const char* c = failure.what(); *c; ++c) ASSERT_TRUE(*c >= ' ' && *c <= '~') << failure.what();
    }
  }
  EXPECT_GT(refused, 1000);
}

class TableFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "busbw-table-" + std::to_string(::getpid());
    std::filesystem::create_directories(folder_ + "/busbw");
    setenv("XDG_CONFIG_HOME", folder_.c_str(), 1);
    unsetenv("BUSBW_TABLE");
  }
  void TearDown() override {
    std::filesystem::remove_all(folder_);
    unsetenv("BUSBW_TABLE");
  }
  void write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }
  std::string refusal() {
    try {
      table_text_from_environment();
    } catch (const Failure& failure) {
      return failure.what();
    }
    return "";
  }
  std::string folder_;
};

TEST_F(TableFiles, AreTheNamedOneElseTheUsersElseNone) {
  EXPECT_EQ(table_text_from_environment(), "");
  write(default_table_path(), "busbw-table 1\nall_reduce nccl\n");
  EXPECT_EQ(table_text_from_environment(), "busbw-table 1\nall_reduce nccl\n");
  write(folder_ + "/mine", "busbw-table 1\n");
  setenv("BUSBW_TABLE", (folder_ + "/mine").c_str(), 1);
  EXPECT_EQ(table_text_from_environment(), "busbw-table 1\n");
  setenv("BUSBW_TABLE", "/dev/null", 1);
  EXPECT_EQ(table_text_from_environment(), "") << "the built-in table alone";
}

TEST_F(TableFiles, AreNamedWhereTheyAreWrongOrMissing) {
  write(default_table_path(), "busbw-table 1\nall_reduce ncll\n");
  EXPECT_TRUE(refusal().starts_with(default_table_path() + ": Table of algorithms, line 2: 'ncll' is no kernel"))
      << refusal();
  for (const std::string& unreadable : {folder_ + "/none", folder_}) {
    setenv("BUSBW_TABLE", unreadable.c_str(), 1);
    EXPECT_NE(refusal().find("cannot be read"), std::string::npos) << unreadable;
  }
}

}  // namespace
}  // namespace busbw::gpu

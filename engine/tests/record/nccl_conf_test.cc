// What an nccl.conf sets reaches a record, by the rules of the NCCL that reads it.
#include "engine/record/nccl_conf.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <tuple>
#include <vector>

#include "engine/record/environment.h"

namespace busbw {
namespace {

using Told = std::tuple<std::string, std::string, int, bool>;

// Tests run beside each other, each in a process of its own.
std::string own_file(const std::string& ending) {
  return ::testing::TempDir() + "busbw_test-" + std::to_string(::getpid()) + ending;
}

// A file with this text, named by NCCL_CONF_FILE, or by another variable.
class Conf {
 public:
  explicit Conf(const std::string& text, const std::string& more = "NCCL_DEBUG=WARN")
      : path_(own_file(".conf")), variable_("NCCL_CONF_FILE=" + path_), more_(more) {
    std::ofstream(path_, std::ios::binary) << text;
  }
  Conf(const Conf&) = delete;
  Conf& operator=(const Conf&) = delete;
  ~Conf() { std::remove(path_.c_str()); }

  std::vector<Told> told(int version = 23007) {
    std::vector<Told> found;
    for (const ConfSetting& each : conf_settings(environment_, version, notes))
      if (each.file == path_) found.emplace_back(each.name, each.value, each.line, each.in_force);
    return found;
  }
  const char* const* environment() const { return environment_; }
  const std::string& path() const { return path_; }

  std::vector<std::string> notes{};

 private:
  std::string path_, variable_, more_;
  const char* environment_[4] = {variable_.c_str(), more_.c_str(), "HOME=/home/somebody", nullptr};
};

TEST(NcclConf, KeepsWhatItSetsWithItsLineAndWhetherItIsInForce) {
  Conf conf("# all\nNCCL_PROTO=LL\nNCCL_ALGO=Tree\nNCCL_ALGO=Ring\nno sign\nNCCL_X=a=b\n=1\n", "NCCL_PROTO=Simple");
  EXPECT_EQ(conf.told(), (std::vector<Told>{{"NCCL_PROTO", "LL", 2, false},
                                            {"NCCL_ALGO", "Tree", 3, true},
                                            {"NCCL_ALGO", "Ring", 4, false},
                                            {"NCCL_X", "a=b", 6, true}}));
}

TEST(NcclConf, LeavesOutSecretsAndWhatDoesNotAct) {
  Conf conf(
      "AWS_SECRET_ACCESS_KEY=otter\nNCCL_API_KEY=otter\nEDITOR=vi\nNCCL_NET=https://me:otter@host/"
      "\nNCCL_NETRC=user:OTTER47@host\n");
  EXPECT_EQ(conf.told(), (std::vector<Told>{{"NCCL_NET", "https://me:***@host/", 4, true},
                                            {"NCCL_NETRC", "user:***@host", 5, true}}));
}

TEST(NcclConf, TakesLinesAsTheVersionDoes) {
  Conf conf("NCCL_PROTO=LL\r\nNCCL_ALGO=Ring");
  EXPECT_EQ(std::get<1>(conf.told(23003)[0]), "LL");
  EXPECT_EQ(std::get<1>(conf.told(22907)[0]), "LL\r");
  EXPECT_EQ(std::get<1>(conf.told(22907)[1]), "Ring");
  EXPECT_TRUE(conf.told(22203).empty());  // which knows no NCCL_CONF_FILE
}

TEST(NcclConf, CutsValuesAndTakesWhatFollowsALongLineForAnother) {
  Conf conf("NCCL_IB_HCA=" + std::string(4083, 'x') + "NCCL_ALGO=Ring\n");
  EXPECT_EQ(std::get<1>(conf.told()[0]).size(), 1023u);
  ASSERT_EQ(conf.told(23007).size(), 2u);
  EXPECT_EQ(conf.told(23007)[1], (Told{"NCCL_ALGO", "Ring", 1, true}));
  EXPECT_EQ(conf.told(22907).size(), 1u);
}

TEST(NcclConf, TakesTheHomeOfTheUserAsTheVersionDoes) {
  const char* const environment[] = {"HOME=/home/somebody", nullptr};
  const std::vector<ConfFile> now = conf_files(environment, 23003), before = conf_files(environment, 22907);
  ASSERT_EQ(now.size(), 2u);
  EXPECT_EQ(now[0].name, "~/.nccl.conf");
  EXPECT_EQ(now[0].path, "/home/somebody/.nccl.conf");
  EXPECT_NE(before[0].path, "/home/somebody/.nccl.conf");
  EXPECT_EQ(now[1].path, "/etc/nccl.conf");
}

TEST(NcclConf, IsBounded) {
  std::string text(3u << 20, '\0');
  for (int i = 0; i < 1000; ++i) text.insert(0, "NCCL_N" + std::to_string(i) + "=1\n");
  Conf conf(text);
  EXPECT_EQ(conf.told().size(), 200u);
  ASSERT_EQ(conf.notes.size(), 1u);
  EXPECT_EQ(conf.notes[0], "nccl.conf sets 1000 variables, the first 200 of which are kept");
  EXPECT_TRUE(Conf("").told().empty());
}

TEST(ActingFiles, AreThoseThatAConfNamesToo) {
  const std::string graph = own_file("_graph.xml");
  std::ofstream(graph) << "<graphs/>";
  const auto hashed = [](const Conf& conf) {
    const Variables files = acting_files(conf.environment(), 23007);
    return std::count_if(files.begin(), files.end(), [](const auto& each) {
      return each.first == "file of NCCL_GRAPH_FILE" && each.second.size() == 12;
    });
  };
  EXPECT_EQ(hashed(Conf("NCCL_GRAPH_FILE=" + graph + "\n")), 1);
  EXPECT_EQ(hashed(Conf("NCCL_GRAPH_FILE=" + graph + "\n", "NCCL_GRAPH_FILE=")), 0);  // the environment wins
  EXPECT_EQ(hashed(Conf("NCCL_TUNER_PLUGIN=ofi\n")), 0);
  std::remove(graph.c_str());
}

}  // namespace
}  // namespace busbw

// Slurm's short forms of host lists and task counts.
#include "engine/rendezvous/join/node_list.h"

#include <gtest/gtest.h>

#include "engine/core/error.h"

namespace busbw {
namespace {

using Names = std::vector<std::string>;

TEST(ExpandNodeList, ReadsEveryFormThatSlurmWrites) {
  EXPECT_EQ(expand_node_list("n1"), Names{"n1"});
  EXPECT_EQ(expand_node_list("n1,m-2.cluster"), (Names{"n1", "m-2.cluster"}));
  EXPECT_EQ(expand_node_list("node[01-03,07],login"), (Names{"node01", "node02", "node03", "node07", "login"}));
  EXPECT_EQ(expand_node_list("n[8-11]"), (Names{"n8", "n9", "n10", "n11"}));
  EXPECT_EQ(expand_node_list("n[098-101]-ib"), (Names{"n098-ib", "n099-ib", "n100-ib", "n101-ib"}));
  EXPECT_EQ(expand_node_list("r[1-2]n[01-02]"), (Names{"r1n01", "r1n02", "r2n01", "r2n02"}));
}

TEST(ExpandNodeList, RefusesWhatIsNoList) {
  for (const char* list : {"", "n[", "n]", "n[1-", "n[2-1]", "n[a]", "n[[1]]", ",n", "n[1-99999999]", "n[-1]", "n[]"}) {
    EXPECT_THROW(expand_node_list(list), Error) << list;
  }
}

TEST(ExpandTasksPerNode, ReadsRepeats) {
  EXPECT_EQ(expand_tasks_per_node("2(x3),1"), (std::vector<int>{2, 2, 2, 1}));
  EXPECT_EQ(expand_tasks_per_node("8"), std::vector<int>{8});
  for (const char* list : {"", "x", "2(x", "2(3)", "2(x-1)", "2(x99999999)", "-2"}) {
    EXPECT_THROW(expand_tasks_per_node(list), Error) << list;
  }
}

}  // namespace
}  // namespace busbw

// The choice of processors near a GPU, and the lists of a file system made for the test.
#include "engine/platform/affinity.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>

namespace busbw {
namespace {

namespace fs = std::filesystem;

std::vector<int> from_to(int first, int last) {
  std::vector<int> cpus(static_cast<std::size_t>(last - first + 1));
  std::iota(cpus.begin(), cpus.end(), first);
  return cpus;
}

TEST(ChooseCpus, TakesThoseNearTheGpuThatMayBeUsed) {
  const CpuChoice choice = choose_cpus(from_to(0, 31), from_to(16, 63), from_to(16, 63), 4);
  EXPECT_EQ(choice.cpus, from_to(16, 31));
  EXPECT_EQ(choice.why_not, "");
}

TEST(ChooseCpus, LeavesAProcessThatItsLauncherHasBound) {
  const CpuChoice choice = choose_cpus(from_to(0, 31), from_to(4, 7), from_to(0, 63), 1);
  EXPECT_TRUE(choice.cpus.empty());
  EXPECT_NE(choice.why_not.find("4-7"), std::string::npos) << choice.why_not;
}

TEST(ChooseCpus, DoesNotCrowdRanksOntoFewProcessors) {
  const CpuChoice choice = choose_cpus(from_to(0, 31), from_to(29, 63), from_to(29, 63), 4);
  EXPECT_TRUE(choice.cpus.empty());
  EXPECT_NE(choice.why_not.find("only 3"), std::string::npos) << choice.why_not;
}

TEST(ChooseCpus, HasNothingToSayWhereAllAreNearOrTheSystemDoesNotTell) {
  for (const CpuChoice& choice : {choose_cpus(from_to(0, 63), from_to(0, 63), from_to(0, 63), 4),
                                  choose_cpus({}, from_to(0, 63), from_to(0, 63), 4)}) {
    EXPECT_TRUE(choice.cpus.empty());
    EXPECT_EQ(choice.why_not, "");
  }
}

TEST(Affinity, BindsThisThreadAndReadsItBack) {
  const std::vector<int> before = allowed_cpus();
  ASSERT_FALSE(before.empty());
  ASSERT_TRUE(bind_this_thread({before.front()}));
  EXPECT_EQ(allowed_cpus(), std::vector<int>{before.front()});
  EXPECT_EQ(usable_processors(), 1);
  EXPECT_TRUE(bind_this_thread(before));
  EXPECT_FALSE(bind_this_thread({}));
}

TEST(UnboundCpus, AreThoseOfTheControlGroupElseThoseOnline) {
  std::string pattern = (fs::temp_directory_path() / "busbw-root-XXXXXX").string();
  ASSERT_NE(mkdtemp(pattern.data()), nullptr);
  const fs::path root = pattern;
  const auto write = [&](const char* path, const char* text) {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  };
  EXPECT_TRUE(unbound_cpus(pattern + "/").empty());
  write("sys/devices/system/cpu/online", "0-7\n");
  EXPECT_EQ(unbound_cpus(pattern + "/"), from_to(0, 7));
  write("proc/self/cgroup", "0::/job\n");
  write("sys/fs/cgroup/job/cpuset.cpus.effective", "2-3\n");
  EXPECT_EQ(unbound_cpus(pattern + "/"), from_to(2, 3));
  fs::remove_all(root);
}

}  // namespace
}  // namespace busbw

// What each word of --library finds in Python environments made for the test.
#include "engine/library_api/discovery.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace busbw {
namespace {

namespace fs = std::filesystem;

class Discovery : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "busbw-discovery-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { fs::remove_all(root_); }

  std::string make(const std::string& file) {
    const fs::path path = root_ / file;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << "x";
    return path.string();
  }
  SearchPlaces places(const std::vector<std::string>& environments) {
    SearchPlaces result;
    for (const std::string& name : environments) result.python_roots.push_back((root_ / name).string());
    return result;
  }

  fs::path root_;
};

constexpr const char* wheel_in_a = "a/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2";
constexpr const char* wheel_in_b = "b/lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2";

TEST_F(Discovery, FindsTheWheelOfTheFirstEnvironmentThatHasOne) {
  make("empty/lib/python3.12/site-packages/readme");
  make(wheel_in_a);
  const std::string expected = make(wheel_in_b);
  const LibrarySearch search = find_libraries("wheel", places({"empty", "b", "a"}));
  ASSERT_EQ(search.candidates.size(), 1U);
  EXPECT_EQ(search.candidates[0].file, expected);
  ASSERT_EQ(search.looked_in.size(), 1U);
  EXPECT_NE(search.looked_in[0].find("empty/"), std::string::npos);
}

TEST_F(Discovery, TakesTheWheelBesidePyTorchUnlessPyTorchBringsItsOwn) {
  const std::string wheel = make(wheel_in_a);
  EXPECT_TRUE(find_libraries("torch", places({"a"})).candidates.empty());
  make("a/lib/python3.11/site-packages/torch/lib/libtorch.so");
  EXPECT_EQ(find_libraries("torch", places({"a"})).candidates.at(0).file, wheel);
  const std::string own = make("a/lib/python3.11/site-packages/torch/lib/libnccl.so.2");
  EXPECT_EQ(find_libraries("torch", places({"a"})).candidates.at(0).file, own);
}

TEST_F(Discovery, TriesTheWheelBeforePyTorchsAndTheLoadersForAuto) {
  make(wheel_in_a);
  make("a/lib/python3.11/site-packages/torch/lib/libnccl.so.2");
  const LibrarySearch search = find_libraries("auto", places({"a"}));
  ASSERT_EQ(search.candidates.size(), 3U);
  EXPECT_EQ(search.candidates[0].origin, LibraryCandidate::Origin::wheel);
  EXPECT_EQ(search.candidates[1].origin, LibraryCandidate::Origin::torch);
  EXPECT_EQ(search.candidates[2].origin, LibraryCandidate::Origin::system);
  EXPECT_EQ(search.candidates[2].file, "libnccl.so.2");
}

TEST_F(Discovery, TrustsAHintOverItsOwnSearch) {
  make(wheel_in_a);
  SearchPlaces hinted = places({"a"});
  hinted.wheel_hint = "/elsewhere/libnccl.so.2";
  EXPECT_EQ(find_libraries("wheel", hinted).candidates.at(0).file, "/elsewhere/libnccl.so.2");
}

TEST_F(Discovery, TakesAnyOtherWordAsAPath) {
  const LibrarySearch search = find_libraries("./librccl.so.1", places({}));
  ASSERT_EQ(search.candidates.size(), 1U);
  EXPECT_EQ(search.candidates[0].file, "./librccl.so.1");
}

TEST_F(Discovery, NamesThePlacesWhereNothingWas) {
  make("empty/lib/python3.12/site-packages/readme");
  const LibrarySearch search = find_libraries("wheel", places({"empty"}));
  const std::string sentence = describe_failed_search("wheel", search);
  EXPECT_NE(sentence.find("--library wheel"), std::string::npos) << sentence;
  EXPECT_NE(sentence.find((root_ / "empty/lib/python3.12/site-packages").string()), std::string::npos) << sentence;
  EXPECT_NE(sentence.find("pip install"), std::string::npos) << sentence;
}

// In this program's constants, as NCCL has it in its own.
[[gnu::used]] const char statement[] = "NCCL version 2.99.1+cuda98.7";

TEST_F(Discovery, ReadsTheBuildStatementFromTheConstantsOfAFile) {
  const std::optional<NcclBuild> build = nccl_build_of("/proc/self/exe");
  ASSERT_TRUE(build.has_value());
  EXPECT_EQ(build->version, "2.99.1");
  EXPECT_EQ(build->cuda_version, "98.7");
}

TEST_F(Discovery, MakesNothingOfFilesThatAreNoLibraries) {
  EXPECT_FALSE(nccl_build_of(make("short")).has_value());
  EXPECT_FALSE(nccl_build_of((root_ / "absent").string()).has_value());
  std::ofstream(root_ / "damaged") << "\177ELF\2" << std::string(4096, '\377');
  EXPECT_FALSE(nccl_build_of((root_ / "damaged").string()).has_value());
}

// A python3 that only a shell can tell the prefix of, and that notes that it was asked.
TEST_F(Discovery, AsksPythonOnlyWhereItsPackagesAreWanted) {
  const std::string python = make("wrappers/python3");
  std::ofstream(python) << "#!/bin/sh\ntouch " << (root_ / "asked").string() << "\necho /prefix\n";
  fs::permissions(python, fs::perms::owner_all);
  const std::string path = std::getenv("PATH") != nullptr ? std::getenv("PATH") : "";
  setenv("PATH", ((root_ / "wrappers").string() + ":/usr/bin:/bin").c_str(), 1);
  for (const char* choice : {"system", "cpu", "/some/libnccl.so.2"}) SearchPlaces::of_this_process(choice);
  EXPECT_FALSE(fs::exists(root_ / "asked"));
  const SearchPlaces places = SearchPlaces::of_this_process("auto");
  setenv("PATH", path.c_str(), 1);
  EXPECT_TRUE(fs::exists(root_ / "asked"));
  EXPECT_EQ(places.python_roots.back(), "/prefix");
}

}  // namespace
}  // namespace busbw

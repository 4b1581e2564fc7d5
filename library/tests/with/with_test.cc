// Whichever way a program comes to NCCL, `busbw with`'s auditor gives it the library in front, with that NCCL behind.
#include <string>

#include "library/common/elf_symbols.h"
#include "library/tests/gpu/program.h"
#include "library/with/elf_file.h"

namespace busbw::with {
namespace {

using gpu::test::contains;
using gpu::test::Finished;
using gpu::test::run;

const std::string folder = BUSBW_TEST_FAKE_FOLDER;
const std::string nccl = folder + "/libnccl.so.2";
const std::string seen = "version 22809, calls go to libbusbw_gpu.so, ncclCommGrow absent";

// The fake NCCL's arguments point nowhere: everything is handed on.
std::string environment(const std::string& more = "") {
  return "BUSBW_GPU=0 LD_AUDIT=" BUSBW_TEST_AUDITOR " BUSBW_WITH_FRONT=" BUSBW_TEST_GPU_LIBRARY
         " BUSBW_WITH_SHIM=" BUSBW_TEST_SHIM " " +
         more;
}

Finished opened(const std::string& how, const std::string& file, const std::string& more = "") {
  return run(environment(more), BUSBW_TEST_OPENER " " + how + " " + file);
}

int times(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(With, AProgramThatIsLinkedToNcclCallsUs) {
  const Finished done = run(environment(), BUSBW_TEST_NCCL_USER);
  EXPECT_EQ(done.status, 0) << done.output;
  EXPECT_TRUE(contains(done.output, "version 22809, busbw in front: yes")) << done.output;
}

TEST(With, SaysOnceWhichNcclStandsBehind) {
  const Finished done = opened("again", nccl);
  EXPECT_EQ(times(done.output, "libbusbw_gpu.so stands in front of " + nccl), 1) << done.output;
}

TEST(With, OnlyTheFirstRankOfAJobSpeaks) {
  EXPECT_TRUE(contains(opened("local", nccl, "RANK=0").output, "stands in front"));
  EXPECT_FALSE(contains(opened("local", nccl, "RANK=3").output, "stands in front"));
}

class Way : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Dlopen, Way, testing::Values("local", "deepbind", "again"));

TEST_P(Way, ByAPath) {
  const Finished done = opened(GetParam(), nccl);
  EXPECT_TRUE(contains(done.output, seen)) << done.output;
}

TEST_P(Way, ByItsName) {
  const Finished done = opened(GetParam(), "libnccl.so.2", "LD_LIBRARY_PATH=" + folder);
  EXPECT_TRUE(contains(done.output, seen)) << done.output;
}

TEST_P(Way, ByAPathThatIsRelative) {
  const Finished done = run("cd " + folder + "/.. && " + environment(),
                            BUSBW_TEST_OPENER " " + std::string(GetParam()) + " ./fake_nccl/libnccl.so.2");
  EXPECT_TRUE(contains(done.output, seen)) << done.output;
}

TEST(With, ALibraryThatFindsNcclByItsOwnRunpath) {
  for (const char* how : {"plugin", "plugin-deepbind"}) {
    const Finished done = opened(how, BUSBW_TEST_PLUGIN);
    EXPECT_TRUE(contains(done.output, seen)) << how << ": " << done.output;
    EXPECT_EQ(done.status, 0) << "a function that we do not know is NCCL's own";
  }
}

TEST(With, ANamespaceOfItsOwn) {
  const Finished by_name = opened("namespace", "libnccl.so.2", "LD_LIBRARY_PATH=" + folder);
  EXPECT_TRUE(contains(by_name.output, seen)) << by_name.output;
  // The C library asks no auditor there.
  const Finished by_path = opened("namespace", nccl);
  EXPECT_TRUE(contains(by_path.output, "pass busbw by: dlmopen opens it by its path")) << by_path.output;
}

TEST(With, AnAnswerThatNothingIsLoadedStaysOne) {
  EXPECT_TRUE(contains(opened("if-there", nccl).output, "not opened"));
  EXPECT_TRUE(contains(opened("local", "libnccl.so.2").output, "not opened")) << "there is none on the search path";
}

TEST(With, TheUsersNcclStandsBehindWhateverTheProgramOpens) {
  const Finished done = opened("local", nccl, "BUSBW_REAL_NCCL=" + nccl);
  EXPECT_TRUE(contains(done.output, seen)) << done.output;
}

TEST(With, WithoutALibraryInFrontTheLoaderGoesOnAlone) {
  const Finished done = run("LD_AUDIT=" BUSBW_TEST_AUDITOR, BUSBW_TEST_OPENER " local " + nccl);
  EXPECT_TRUE(contains(done.output, "calls go to libnccl.so.2")) << done.output;
}

TEST(With, ALibraryWithAnNcclOfItsOwnIsTold) {
  const Finished done = opened("local", BUSBW_TEST_CPU_LIBRARY);
  EXPECT_TRUE(contains(done.output, "libbusbw_cpu.so pass busbw by: it has an NCCL")) << done.output;
  EXPECT_TRUE(contains(done.output, "calls go to libbusbw_cpu.so")) << done.output;
}

TEST(With, ALibraryThatTheUserNamesIsNcclWhateverItsFileIsCalled) {
  const Finished done = opened("local", BUSBW_TEST_CPU_LIBRARY, "BUSBW_REAL_NCCL=" BUSBW_TEST_CPU_LIBRARY);
  EXPECT_TRUE(contains(done.output, "calls go to libbusbw_gpu.so")) << done.output;
}

TEST(NamesOfNccl, AreToldFromItsPlugins) {
  for (const char* name :
       {"libnccl.so", "libnccl.so.2", "libnccl.so.2.28.9", "libnccl-3f6a2b1c.so.2", "librccl.so.1", "librccl.so"})
    EXPECT_TRUE(is_name_of_nccl(name)) << name;
  for (const char* name : {"libnccl-net.so", "libnccl-profiler-example.so", "libnccl_static.a", "libnccl.sock",
                           "libncclx.so", "librccl-net.so", "nccl.so", "libnccl-tuner.so.2", ""})
    EXPECT_FALSE(is_name_of_nccl(name)) << name;
}

TEST(FilesForThisProcess, AreElfLibrariesOfItsProcessor) {
  EXPECT_TRUE(fits_this_process(nccl.c_str()));
  EXPECT_FALSE(fits_this_process("/nowhere/libnccl.so.2"));
  EXPECT_FALSE(fits_this_process("/dev/null"));
  EXPECT_FALSE(fits_this_process("/etc/passwd"));
}

}  // namespace
}  // namespace busbw::with

// In front of an NCCL the library loses nothing: every function arrives there with every argument.
#include <dlfcn.h>

#include <cstdlib>

#include "library/common/nccl/last_error.h"
#include "library/tests/gpu/nccl_calls.h"
#include "library/tests/gpu/program.h"

namespace busbw::gpu::test {
namespace {

const std::string user = BUSBW_TEST_NCCL_USER;
const std::string ours = BUSBW_TEST_GPU_LIBRARY;
// Pointers of these calls point nowhere.
const std::string only_pass_on = "BUSBW_GPU=0 ";

TEST(AProgramLinkedToNccl, CallsItWithoutUs) {
  const Finished done = run("", user);
  EXPECT_EQ(done.status, 0) << done.output;
  EXPECT_TRUE(contains(done.output, "version 22809, busbw in front: no")) << done.output;
}

TEST(Preloaded, EveryCallGoesThroughUsToTheProgramsOwnNccl) {
  const Finished done = run(only_pass_on + "LD_PRELOAD=" + ours, user);
  EXPECT_EQ(done.status, 0) << done.output;
  EXPECT_TRUE(contains(done.output, "version 22809, busbw in front: yes")) << done.output;
}

// Between us and NCCL, or between the program and us, a profiler sees each call once and NCCL gets it once.
TEST(AProfiler, GoesOnByTheOtherNameWhoeverIsInFront) {
  for (const std::string& order : {ours + ":" BUSBW_TEST_INTERPOSER, BUSBW_TEST_INTERPOSER ":" + ours}) {
    const Finished done = run(only_pass_on + "LD_PRELOAD=" + order, user + " all-reduce");
    EXPECT_EQ(done.status, 0) << done.output;
    EXPECT_EQ(done.output, "the profiler saw a call\nby its name for profilers: 1\n") << order;
  }
}

TEST(Opened, EveryCallGoesToTheNcclThatTheSettingNames) {
  const Finished done = run(only_pass_on + "BUSBW_REAL_NCCL=" BUSBW_TEST_FAKE_NCCL, user + " " + ours);
  EXPECT_EQ(done.status, 0) << done.output;
  EXPECT_TRUE(contains(done.output, "version 22809, busbw in front: yes")) << done.output;
}

TEST(Opened, WithoutASettingTheNcclOfTheProcessIsFoundByItsName) {
  const Finished done = run(only_pass_on, user + " " + ours);
  EXPECT_EQ(done.status, 0) << done.output;
}

class InThisProcess : public ::testing::Test {
 protected:
  InThisProcess() { ::setenv("BUSBW_REAL_NCCL", BUSBW_TEST_FAKE_NCCL, 1); }
  template <class Function>
  static Function* find(const char* name) {
    static void* library = ::dlopen(BUSBW_TEST_GPU_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<Function*>(::dlsym(library, name));
  }
};

TEST_F(InThisProcess, AFunctionThatThisNcclLacksIsAnErrorWithASentence) {
  auto* grow = find<ncclCommGrow_t>("ncclCommGrow");
  ASSERT_NE(grow, nullptr);
  ncclComm_t made = nullptr;
  EXPECT_EQ(grow(nullptr, 2, nullptr, 0, &made, nullptr), ncclInvalidUsage);
  const std::string why = find<ncclGetLastError_t>("ncclGetLastError")(nullptr);
  EXPECT_TRUE(contains(why, "has no ncclCommGrow") && contains(why, "2.28.9") && contains(why, "libnccl.so")) << why;
}

TEST_F(InThisProcess, NcclsOwnFailureComesWithItsOwnSentence) {
  ncclComm_t made = nullptr;
  EXPECT_EQ(find<ncclCommGrow_t>("ncclCommGrow")(nullptr, 2, nullptr, 0, &made, nullptr), ncclInvalidUsage);
  EXPECT_EQ(find<ncclCommFinalize_t>("ncclCommFinalize")(nullptr), ncclInvalidArgument);
  EXPECT_STREQ(find<ncclGetLastError_t>("ncclGetLastError")(nullptr), "the fake's last error");
}

TEST(NoNccl, IsSaidInOneSentenceThatNamesWhatWasTried) {
  const Finished done = run("BUSBW_REAL_NCCL=/nowhere/libnccl.so.2", BUSBW_TEST_ENGINE " all_reduce --library " + ours);
  EXPECT_NE(done.status, 0);
  EXPECT_TRUE(contains(done.output, "/nowhere/libnccl.so.2")) << done.output;
}

TEST(ItselfAsNccl, IsRefusedInsteadOfCalledForever) {
  const Finished done = run("BUSBW_REAL_NCCL=" + ours, BUSBW_TEST_ENGINE " all_reduce --library " + ours);
  EXPECT_NE(done.status, 0);
  EXPECT_TRUE(contains(done.output, "is this library itself")) << done.output;
}

}  // namespace
}  // namespace busbw::gpu::test

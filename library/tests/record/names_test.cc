// The recorder loses nothing: every function of NCCL up to 2.32, and RCCL's own, arrives with every argument.
#include <dlfcn.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "busbw/nccl_abi.h"
#include "library/common/nccl/functions.h"
#include "library/tests/gpu/program.h"
#include "library/tests/record/recording_file.h"

namespace busbw::record::test {
namespace {

using gpu::test::contains;
using gpu::test::Finished;
using gpu::test::run;

const std::string recorder = BUSBW_TEST_RECORDER;

TEST(EveryCall, GoesThroughToTheProgramsOwnNccl) {
  const Finished done = run("LD_PRELOAD=" + recorder, BUSBW_TEST_NCCL_USER);
  EXPECT_EQ(done.status, 0) << done.output;
  EXPECT_TRUE(contains(done.output, "version 22809")) << done.output;
  EXPECT_FALSE(contains(done.output, "lost")) << done.output;
}

TEST(EveryCall, GoesToTheNcclThatTheSettingNames) {
  const Finished done = run("BUSBW_REAL_NCCL=" BUSBW_TEST_FAKE_NCCL, BUSBW_TEST_NCCL_USER " " + recorder);
  EXPECT_EQ(done.status, 0) << done.output;
}

TEST(EveryName, OfNcclUpToTheNewestIsThereByBothOfItsNames) {
  void* library = ::dlopen(recorder.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << ::dlerror();
  std::ifstream list(BUSBW_TEST_NCCL_FUNCTIONS);
  int names = 0;
  for (std::string line; std::getline(list, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::string name = line.substr(0, line.find(' '));
    EXPECT_NE(::dlsym(library, name.c_str()), nullptr) << name;
    EXPECT_NE(::dlsym(library, ("p" + name).c_str()), nullptr) << "p" << name;
    ++names;
  }
  EXPECT_GE(names, 90);
  for (const char* name : {"ncclAllReduceWithBias", "ncclAllToAll", "ncclAllToAllv", "mscclLoadAlgo", "mscclRunAlgo",
                           "mscclUnloadAlgo", "pncclAllToAll", "pmscclRunAlgo"})
    EXPECT_NE(::dlsym(library, name), nullptr) << name;
}

// In a process of its own: the recorder finds one library behind it for good. Fills the folder.
void in_a_process_over(const char* nccl, const Folder& folder, void (*work)()) {
  ::setenv("BUSBW_REAL_NCCL", nccl, 1);
  ::setenv("BUSBW_RECORD_DIR", folder.path.c_str(), 1);
  const pid_t child = ::fork();
  if (child == 0) work();
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ::unsetenv("BUSBW_REAL_NCCL");
  ::unsetenv("BUSBW_RECORD_DIR");
  ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

void use_rccl() {
  const auto at = [](std::uintptr_t number) { return reinterpret_cast<void*>(number); };
  void* library = ::dlopen(recorder.c_str(), RTLD_NOW | RTLD_LOCAL);
  const auto find = [&](const char* name) { return ::dlsym(library, name); };
  ncclComm_t comm = nullptr;
  const auto must = [](int result, int code) {
    if (result != ncclSuccess) ::_exit(code);
  };
  must(reinterpret_cast<ncclCommInitRank_t*>(find("ncclCommInitRank"))(&comm, 2, {}, 1), 2);
  auto* stream = reinterpret_cast<ncclStream_t>(0x5000);
  must(reinterpret_cast<ncclAllReduceWithBias_t*>(find("ncclAllReduceWithBias"))(at(1), at(2), 100, ncclFloat32,
                                                                                 ncclSum, comm, stream, at(8)),
       3);
  must(reinterpret_cast<ncclAllToAll_t*>(find("ncclAllToAll"))(at(1), at(2), 50, ncclInt8, comm, stream), 4);
  const size_t counts[2] = {3, 4};
  must(reinterpret_cast<ncclAllToAllv_t*>(find("pncclAllToAllv"))(at(1), counts, counts, at(4), counts, counts,
                                                                  ncclFloat64, comm, stream),
       5);
  std::uint64_t algorithm = 0;
  using Load = int(const char*, std::uint64_t*, int);
  must(reinterpret_cast<Load*>(find("mscclLoadAlgo"))("algorithm.xml", &algorithm, 1), 6);
  must(reinterpret_cast<mscclRunAlgo_t*>(find("mscclRunAlgo"))(at(1), counts, counts, at(2), counts, counts, 7,
                                                               ncclFloat16, 1, 0, ncclMax, algorithm, comm, stream),
       7);
  using Unload = int(std::uint64_t);
  must(reinterpret_cast<Unload*>(find("mscclUnloadAlgo"))(algorithm), 8);
  ::_exit(0);
}

TEST(Rccl, ItsOwnCallsAreRecordedAndArriveWhole) {
  const Folder folder;
  in_a_process_over(BUSBW_TEST_FAKE_RCCL, folder, use_rccl);
  const File file(folder.path);
  std::ostringstream found;
  for (std::uint64_t n = 1; n <= file.header().calls; ++n)
    found << int(File::kind(file.call(n))) << ":" << File::count(file.call(n)) << " ";
  EXPECT_EQ(found.str(), "1:100 6:50 14:7 15:7 ");
  EXPECT_EQ(file.row(0).collectives, 2U) << "calls with counts of their own are not compared between ranks";
}

void ask_for_errors() {
  void* library = ::dlopen(recorder.c_str(), RTLD_NOW | RTLD_LOCAL);
  for (const int ranks : {2, 99}) {
    ncclComm_t comm = nullptr;
    ncclResult_t error = ncclSuccess;
    reinterpret_cast<ncclCommInitRank_t*>(::dlsym(library, "ncclCommInitRank"))(&comm, ranks, {}, 1);
    reinterpret_cast<ncclCommGetAsyncError_t*>(::dlsym(library, "ncclCommGetAsyncError"))(comm, &error);
    if (error != (ranks == 2 ? ncclInProgress : ncclRemoteError)) ::_exit(2);
  }
  ::_exit(0);
}

TEST(Errors, ThatTheProgramAsksForLaterAreKept) {
  const Folder folder;
  in_a_process_over(BUSBW_TEST_FAKE_RCCL, folder, ask_for_errors);
  const File file(folder.path);
  EXPECT_EQ(file.row(0).last_error, 0) << "a call that is under way has not failed";
  EXPECT_EQ(file.row(1).last_error, int(ncclRemoteError));
}

}  // namespace
}  // namespace busbw::record::test

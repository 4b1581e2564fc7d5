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

// Alone, in a group of two, by the names for profilers, and one that NCCL refuses.
void use_windows() {
  const auto at = [](std::uintptr_t number) { return reinterpret_cast<void*>(number); };
  void* library = ::dlopen(recorder.c_str(), RTLD_NOW | RTLD_LOCAL);
  const auto find = [&](const char* name) { return ::dlsym(library, name); };
  const auto must = [](bool right, int code) {
    if (!right) ::_exit(code);
  };
  ncclComm_t comm = nullptr;
  auto* stream = reinterpret_cast<ncclStream_t>(0x5000);
  must(reinterpret_cast<ncclCommInitRank_t*>(find("ncclCommInitRank"))(&comm, 2, {}, 0) == 0, 2);
  const auto put = [&](const char* name, std::size_t count, int peer) {
    return reinterpret_cast<ncclPutSignal_t*>(find(name))(
        at(1), count, ncclFloat32, peer, reinterpret_cast<ncclWindow_t>(at(4)), 5, 6, 7, 8, comm, stream);
  };
  must(put("ncclPutSignal", 100, 1) == 0, 3);
  must(reinterpret_cast<ncclSignal_t*>(find("ncclSignal"))(1, 2, 3, 4, comm, stream) == 0, 4);
  must(reinterpret_cast<ncclWaitSignal_t*>(find("ncclWaitSignal"))(3, at(9), comm, stream) == 0, 5);
  must(reinterpret_cast<ncclGroupStart_t*>(find("ncclGroupStart"))() == 0, 6);
  must(put("pncclPutSignal", 200, 1) == 0, 7);
  must(reinterpret_cast<ncclWaitSignal_t*>(find("pncclWaitSignal"))(3, at(9), comm, stream) == 0, 8);
  must(reinterpret_cast<ncclGroupEnd_t*>(find("ncclGroupEnd"))() == 0, 9);
  must(put("ncclPutSignal", 300, 0) != 0, 10);
  ::_exit(0);
}

TEST(Windows, PutsAndSignalsThatSucceedStandThereWithPeerAndGroup) {
  const Folder folder;
  in_a_process_over(BUSBW_TEST_FAKE_RCCL, folder, use_windows);
  const File file(folder.path);
  std::ostringstream found;
  for (std::uint64_t n = 1; n <= file.header().calls; ++n) {
    const Call& call = file.call(n);
    const std::uint64_t how = call.how.load();
    EXPECT_EQ(call.sequence, n) << "they are counted as messages";
    EXPECT_NE(how >> 48, 0U) << "call " << n << " has come back";
    const auto root = std::int64_t(how >> 16 & 0xfffff);
    found << int(File::kind(call)) << ":" << File::count(call) << " to " << (root == 0xfffff ? -1 : root)
          << ((how >> 36 & 0xfff) != 0 ? " in a group" : "")
          << ((File::flags(call) & flag_failed) != 0 ? " refused; " : "; ");
  }
  EXPECT_EQ(found.str(),
            "11:100 to 1; 12:0 to 1; 13:3 to -1; 11:200 to 1 in a group; 13:3 to -1 in a group; 11:300 to 0 refused; ");
  EXPECT_EQ(file.row(0).entered, 6U);
  EXPECT_EQ(file.row(0).returned, 6U);
  EXPECT_EQ(file.row(0).collectives, 0U);
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

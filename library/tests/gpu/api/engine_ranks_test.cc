// The engine measures every collective through the library without a GPU: all of it goes to the NCCL behind.
#include "library/tests/gpu/program.h"

namespace busbw::gpu::test {
namespace {

class Engine : public ::testing::TestWithParam<const char*> {};

TEST_P(Engine, FindsNoWrongElementBehindUs) {
  // In place sendrecv sends from the buffer that it receives into, as nccl-tests does. Where the CPU library copies
  // straight from the sender's buffer, from 32 KiB, that is a race of the program's own, which the thread sanitizer
  // rightly reports.
  const std::string largest = std::string(GetParam()) == "sendrecv" ? "4K" : "64K";
  const std::string command = std::string(BUSBW_TEST_ENGINE " ") + GetParam() + " -t 2 -b 8 -e " + largest +
                              " -f 8 -n 2 -w 1 --library " BUSBW_TEST_GPU_LIBRARY;
  const Finished done = run("BUSBW_REAL_NCCL=" BUSBW_TEST_CPU_LIBRARY, command);
  EXPECT_EQ(done.status, 0) << done.output;
  EXPECT_TRUE(contains(done.output, "Out of bounds values : 0 OK")) << done.output;
}

INSTANTIATE_TEST_SUITE_P(Collective, Engine,
                         ::testing::Values("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce",
                                           "alltoall", "gather", "scatter", "sendrecv"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace busbw::gpu::test

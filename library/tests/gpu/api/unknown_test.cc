// A function of an NCCL that is newer than this library is noticed before its calls could run beside ours.
#include "library/gpu/api/unknown.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace busbw::gpu {
namespace {

class BeforeANewerNccl : public testing::Test {
 protected:
  BeforeANewerNccl() { ::setenv("BUSBW_REAL_NCCL", BUSBW_TEST_FAKE_NCCL, 1); }
};

using Names = std::vector<std::string>;

TEST_F(BeforeANewerNccl, WhatMayPutWorkOnAStreamIsFoundByName) {
  EXPECT_EQ(unknown_functions(real_nccl()), Names{"ncclFutureAllReduce"}) << "ncclGetFuture only asks";
}

TEST_F(BeforeANewerNccl, NcclDoesEverythingOnceAnObjectIsLinkedToIt) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(why_nccl_is_too_new(), "") << "nothing is linked to it yet";
  EXPECT_EQ(why_nccl_is_too_new(), "");
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_NE(told.find("does not know (ncclFutureAllReduce)"), std::string::npos) << told;
  EXPECT_EQ(told.find('\n'), told.size() - 1) << "told once";

  void* plugin = ::dlopen(BUSBW_TEST_NCCL_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(plugin, nullptr) << ::dlerror();
  EXPECT_NE(why_nccl_is_too_new().find("linked to ncclFutureAllReduce of NCCL 2.28.9"), std::string::npos);
}

}  // namespace
}  // namespace busbw::gpu

// Which calls are those of PyTorch's reducer, told by the stack.
#include "library/gpu/choose/gradients.h"

#include <gtest/gtest.h>

#include <thread>

#include "library/tests/gpu/in_the_reducer.h"

namespace busbw::gpu::test {
namespace {

TEST(CallsForGradients, AreThoseWithinPyTorchsReducer) {
  EXPECT_FALSE(called_for_gradients()) << "there is no PyTorch yet";
  bool within = false;
  in_the_reducer([&] { within = called_for_gradients(); });
  EXPECT_TRUE(within);
  EXPECT_FALSE(called_for_gradients()) << "beside it";
}

TEST(CallsForGradients, AreNotThoseOfOtherThreads) {
  bool elsewhere = true;
  in_the_reducer([&] { std::thread([&] { elsewhere = called_for_gradients(); }).join(); });
  EXPECT_FALSE(elsewhere);
}

}  // namespace
}  // namespace busbw::gpu::test

// Work that PyTorch's reducer of buckets does, in a libtorch that has nothing else (fake_torch.cc).
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <functional>

namespace busbw::gpu::test {

// Opened as Python opens a module, so that its names are nobody else's.
inline void in_the_reducer(const std::function<void()>& work) {
  void* const torch = ::dlopen(BUSBW_TEST_FAKE_TORCH, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(torch, nullptr) << ::dlerror();
  using Reduce = void (*)(void (*)(void*), void*);
  const auto reduce = reinterpret_cast<Reduce>(::dlsym(torch, "busbw_test_reduce"));
  ASSERT_NE(reduce, nullptr);
  const auto call = [](void* with) { (*static_cast<const std::function<void()>*>(with))(); };
  reduce(call, const_cast<std::function<void()>*>(&work));
}

}  // namespace busbw::gpu::test

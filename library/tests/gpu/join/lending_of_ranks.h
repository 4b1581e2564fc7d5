// Ranks whose peers read from their own buffers: gathers on the GPU for tests, and the copies that they take.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "library/gpu/join/lending.h"
#include "library/tests/gpu/fake_devices.h"
#include "library/tests/gpu/ranks.h"

namespace busbw::gpu::test {

inline constexpr std::size_t block = 3000;

class LendingOfRanks : public ::testing::Test {
 protected:
  LendingOfRanks() {
    ::setenv("BUSBW_ALGORITHM", "staged/copy", 1);
    Lending::longest_wait = std::chrono::seconds(20);
  }
  ~LendingOfRanks() override {
    ::unsetenv("BUSBW_ALGORITHM");
    ::unsetenv("BUSBW_LEND");
    Lending::longest_wait = std::chrono::microseconds(5000);
  }
  FakeDevices devices_;
};

inline float value(int rank, int number, std::size_t i) { return float(1000000 * rank + 10000 * number) + float(i); }

// Of the GPU: so many elements, and as many copies as a call with them has made.
struct Memory {
  explicit Memory(std::size_t elements) : at(static_cast<float*>(my_device().allocate(4 * elements))) {}
  ~Memory() { my_device().release(at); }
  float* at;
};

inline std::ptrdiff_t copies(const std::vector<std::string>& notes) {
  return std::count_if(notes.begin(), notes.end(), [](const auto& note) { return note.starts_with("copy "); });
}

// Returns the copies that it took.
inline std::ptrdiff_t gather(ncclComm_t comm, int rank, int ranks, int number, float* all, float* mine) {
  for (std::size_t i = 0; i < block; ++i) mine[i] = value(rank, number, i);
  my_device().take_notes();
  EXPECT_EQ(ncclAllGather(mine, all, block, ncclFloat32, comm, stream(7)), ncclSuccess) << ncclGetLastError(comm);
  for (int from = 0; from < ranks; ++from) {
    for (std::size_t i = 0; i < block; ++i) {
      const float got = all[std::size_t(from) * block + i];
      EXPECT_EQ(got, value(from, number, i)) << "rank " << rank << ", call " << number << ", block " << from;
      if (got != value(from, number, i)) return -1;
    }
  }
  return copies(my_device().take_notes());
}

}  // namespace busbw::gpu::test

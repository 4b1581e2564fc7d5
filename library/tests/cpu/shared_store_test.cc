// Which stores fill memory that peers have read: the choice without clocks, and its setting.
#include "library/cpu/shared_store.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "library/common/failure.h"

namespace busbw::cpu {
namespace {

constexpr std::size_t lines = StoreChoice::least_bytes / 64;

// Writes until `probes` of them were timed at `line_ns` each.
int write_until(StoreChoice& choice, int probes, double line_ns) {
  int writes = 0;
  while (probes > 0) {
    ++writes;
    if (!choice.probes()) continue;
    choice.learn(line_ns * double(lines), lines);
    --probes;
  }
  return writes;
}

TEST(StoreChoice, StaysInTheCacheWhereLinesComeFromANearOne) {
  StoreChoice choice;
  EXPECT_FALSE(choice.around());
  write_until(choice, 50, 9);
  EXPECT_FALSE(choice.around());
}

TEST(StoreChoice, GoesAroundItWhereLinesComeFromFarAndBackWhenTheyNoLongerDo) {
  StoreChoice choice;
  EXPECT_LE(write_until(choice, 3, 27), 12);
  EXPECT_TRUE(choice.around());
  // Looks again, but seldom: each look costs what the choice spares.
  EXPECT_NEAR(write_until(choice, 4, 27), 64, 15);
  EXPECT_TRUE(choice.around());
  write_until(choice, 1, 8);
  EXPECT_FALSE(choice.around());
}

TEST(StoreChoice, IsNotMisledByAWriteDuringWhichTheRankLostItsProcessor) {
  StoreChoice choice;
  for (int i = 0; i < 20; ++i) {
    write_until(choice, 2, 1e5);
    write_until(choice, 1, 8);
    EXPECT_FALSE(choice.around()) << i;
  }
}

TEST(StoreChoice, DoesNotSwingBetweenTheTwo) {
  StoreChoice choice;
  write_until(choice, 3, 13);
  EXPECT_FALSE(choice.around());
  write_until(choice, 3, 27);
  write_until(choice, 3, 13);
  EXPECT_TRUE(choice.around());
}

TEST(SharedStore, MovesEveryByteWhicheverWayItTakes) {
  for (const Stores stores : {Stores::automatic, Stores::cached, Stores::streaming}) {
    SharedStore store(stores);
    for (const std::size_t bytes : {0, 1, 4095, 4096, 4097, 70001}) {
      for (const std::size_t offset : {0, 1, 63}) {
        std::vector<unsigned char> from(bytes + 64), to(bytes + 192, 0xee);
        for (std::size_t i = 0; i < bytes; ++i) from[offset + i] = static_cast<unsigned char>(i * 131 >> 3);
        for (int again = 0; again < 5; ++again) {
          store.write(to.data() + 64 + offset, from.data() + offset, bytes);
          ASSERT_EQ(std::vector(to.begin() + 64 + long(offset), to.begin() + 64 + long(offset + bytes)),
                    std::vector(from.begin() + long(offset), from.begin() + long(offset + bytes)));
          ASSERT_EQ(to[63 + offset], 0xee);
          ASSERT_EQ(to[64 + offset + bytes], 0xee);
        }
      }
    }
  }
}

TEST(Settings, NameTheStores) {
  ::setenv("BUSBW_CPU_STORES", "streaming", 1);
  EXPECT_EQ(Settings::from_environment().stores, Stores::streaming);
  ::setenv("BUSBW_CPU_STORES", "cached", 1);
  EXPECT_EQ(Settings::from_environment().stores, Stores::cached);
  ::setenv("BUSBW_CPU_STORES", "stream", 1);
  EXPECT_THROW(Settings::from_environment(), Failure);
  ::unsetenv("BUSBW_CPU_STORES");
  EXPECT_EQ(Settings::from_environment().stores, Stores::automatic);
}

}  // namespace
}  // namespace busbw::cpu

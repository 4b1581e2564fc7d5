// Which differences are rounding, and which are not.
#include "library/gpu/check/rounding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "busbw/float_formats.h"

namespace busbw::gpu {
namespace {

bool floats_agree(ncclRedOp_t op, int ranks, float ours, float theirs, float most, float least) {
  const Call call{.collective = Collective::all_reduce, .type = ncclFloat32, .op = op};
  return agrees(call, ranks, {&ours, &theirs, &most, &least});
}

TEST(Rounding, OfSumsInAnyOrderIsForgiven) {
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    const int ranks = 2 + int(random() % 7);
    std::vector<float> values(static_cast<std::size_t>(ranks));
    for (float& value : values) {
      value = std::ldexp(float(random() % 2001) / 1000 - 1, int(random() % 24));
    }
    const auto sum = [&] {
      float all = 0;
      for (const float value : values) all += value;
      return all;
    };
    const float a = sum();
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    const float low = *least, high = *most;
    std::shuffle(values.begin(), values.end(), random);
    ASSERT_TRUE(floats_agree(ncclSum, ranks, a, sum(), high, low));
  }
}

TEST(Rounding, OfSumsInHalfIsForgivenAndALostRankIsNot) {
  std::mt19937 random(2);
  const Call call{.collective = Collective::reduce_scatter, .type = ncclFloat16, .op = ncclSum};
  for (int round = 0; round < 20000; ++round) {
    const auto draw = [&] { return encode_float<half_format>(float(random() % 2001) / 1000 - 1); };
    std::vector<std::uint32_t> values(4);
    for (std::uint32_t& value : values) value = draw();
    float exact = 0;
    std::uint32_t steps = 0;
    float most = -100, least = 100;
    for (const std::uint32_t bits : values) {
      const float value = decode_float<half_format>(bits);
      exact += value;
      steps = encode_float<half_format>(decode_float<half_format>(steps) + value);
      most = std::max(most, value);
      least = std::min(least, value);
    }
    const auto once = std::uint16_t(encode_float<half_format>(exact)), stepwise = std::uint16_t(steps);
    const auto high = std::uint16_t(encode_float<half_format>(most)),
               low = std::uint16_t(encode_float<half_format>(least));
    ASSERT_TRUE(agrees(call, 4, {&once, &stepwise, &high, &low}));
    if (std::fabs(decode_float<half_format>(values[0])) < 0.1f) continue;
    const auto lost = std::uint16_t(encode_float<half_format>(exact - decode_float<half_format>(values[0])));
    ASSERT_FALSE(agrees(call, 4, {&lost, &stepwise, &high, &low}));
  }
}

TEST(Rounding, IsMeasuredByTheInputsAndNotByTheResult) {
  // 1 + 1e-8 - 1 and its other order.
  EXPECT_TRUE(floats_agree(ncclSum, 4, 0, 1e-8f, 1, -1));
  EXPECT_FALSE(floats_agree(ncclSum, 4, 0, 1e-8f, 1e-8f, 0));
  EXPECT_FALSE(floats_agree(ncclSum, 8, 1, 1.001f, 1, 0));
}

TEST(Rounding, AnOverflowInOneOrderIsForgivenOnlyWhereOneCanBe) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(floats_agree(ncclSum, 3, infinity, 3e38f, 3e38f, -3e38f));
  EXPECT_FALSE(floats_agree(ncclSum, 3, infinity, 3, 1, 1));
  EXPECT_FALSE(floats_agree(ncclSum, 3, std::nanf(""), 3, 1, 1));
  EXPECT_FALSE(floats_agree(ncclSum, 3, 3, infinity, infinity, 1));
  EXPECT_TRUE(floats_agree(ncclProd, 3, 0, 1e-30f, 1e30f, 1e-30f));
}

TEST(Rounding, IsNoneInProductsOfSmallNumbersBeyondTheLastBits) {
  EXPECT_TRUE(floats_agree(ncclProd, 4, 24, std::nextafter(24.0f, 25.0f), 4, 1));
  EXPECT_FALSE(floats_agree(ncclProd, 4, 24, 24.001f, 4, 1));
}

TEST(Rounding, IsNoneInIntegersExtremesAndWhatIsMoved) {
  const int a = 5, b = 6;
  EXPECT_FALSE(agrees({.collective = Collective::all_reduce, .type = ncclInt32, .op = ncclSum}, 2, {&a, &b, &b, &a}));
  const float x = 1, y = std::nextafter(1.0f, 2.0f), nan = std::nanf(""), zero = 0, minus = -0.0f;
  const Call maximum{.collective = Collective::all_reduce, .type = ncclFloat32, .op = ncclMax};
  EXPECT_FALSE(agrees(maximum, 2, {&x, &y, nullptr, nullptr}));
  EXPECT_FALSE(agrees(maximum, 2, {&x, &nan, nullptr, nullptr}));
  EXPECT_TRUE(agrees(maximum, 2, {&zero, &minus, nullptr, nullptr}));
  const Call move{.collective = Collective::all_gather, .type = ncclFloat32};
  EXPECT_FALSE(agrees(move, 2, {&zero, &minus, nullptr, nullptr}));
}

}  // namespace
}  // namespace busbw::gpu

// Conversions of the small float formats: every bit pattern, and every rounding boundary between neighbours.
#include "busbw/float_formats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace busbw {
namespace {

// The value as the format's definition says, in double arithmetic.
template <FloatFormat F>
double defined_value(std::uint32_t bits) {
  const int sign = bits >> (F.exponent_bits + F.mantissa_bits) & 1;
  const int exponent = int(bits >> F.mantissa_bits) & ((1 << F.exponent_bits) - 1);
  const int mantissa = int(bits) & ((1 << F.mantissa_bits) - 1);
  const double fraction = std::ldexp(mantissa, -F.mantissa_bits);
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, 1 - F.bias) : std::ldexp(1 + fraction, exponent - F.bias);
  return sign ? -magnitude : magnitude;
}

template <FloatFormat F>
void check_every_pattern() {
  const std::uint32_t sign_bit = 1u << (F.exponent_bits + F.mantissa_bits);
  const std::uint32_t infinity = ((1u << F.exponent_bits) - 1) << F.mantissa_bits;
  for (std::uint32_t bits = 0; bits < 2 * sign_bit; ++bits) {
    const std::uint32_t magnitude = bits & (sign_bit - 1);
    const float value = decode_float<F>(bits);
    if (F.has_infinity && magnitude == infinity) {
      EXPECT_TRUE(std::isinf(value) && std::signbit(value) == (bits >= sign_bit)) << bits;
      continue;
    }
    if (F.has_infinity ? magnitude > infinity : magnitude == F.canonical_nan) {
      EXPECT_TRUE(std::isnan(value)) << bits;
      EXPECT_EQ(encode_float<F>(value), F.canonical_nan);
      continue;
    }
    ASSERT_EQ(double(value), defined_value<F>(bits)) << bits;
    ASSERT_EQ(std::signbit(value), bits >= sign_bit) << bits;
    ASSERT_EQ(encode_float<F>(value), bits) << "the way back";
  }
}

// Between two neighbours: below the middle to the lower, above it to the upper, the middle itself to the even one.
template <FloatFormat F>
void check_every_boundary() {
  for (std::uint32_t low = 0; low < F.max_finite; ++low) {
    const std::uint32_t high = low + 1;
    const auto middle = float((double(decode_float<F>(low)) + double(decode_float<F>(high))) / 2);
    const float above = std::nextafter(middle, std::numeric_limits<float>::infinity());
    const float below = std::nextafter(middle, 0.0f);
    const std::uint32_t sign = 1u << (F.exponent_bits + F.mantissa_bits);
    ASSERT_EQ(encode_float<F>(middle), low % 2 == 0 ? low : high) << low;
    ASSERT_EQ(encode_float<F>(above), high) << low;
    ASSERT_EQ(encode_float<F>(below), low) << low;
    ASSERT_EQ(encode_float<F>(-middle), sign | (low % 2 == 0 ? low : high)) << low;
  }
}

template <FloatFormat F>
void check_the_end_of_the_range() {
  const auto largest = decode_float<F>(F.max_finite);
  const float step = largest - decode_float<F>(F.max_finite - 1);
  EXPECT_EQ(encode_float<F>(std::nextafter(largest + step / 2, 0.0f)), F.max_finite);
  EXPECT_EQ(encode_float<F>(largest + step / 2), F.overflow);
  EXPECT_EQ(encode_float<F>(std::numeric_limits<float>::infinity()), F.overflow);
  EXPECT_EQ(encode_float<F>(-std::numeric_limits<float>::infinity()),
            F.overflow | 1u << (F.exponent_bits + F.mantissa_bits));
  EXPECT_EQ(encode_float<F>(std::numeric_limits<float>::quiet_NaN()), F.canonical_nan);
  EXPECT_EQ(encode_float<F>(std::numeric_limits<float>::denorm_min()), 0u);
}

TEST(HalfFormat, DecodesAndEncodesEveryPattern) { check_every_pattern<half_format>(); }
TEST(HalfFormat, RoundsEveryBoundaryToNearestEven) { check_every_boundary<half_format>(); }
TEST(HalfFormat, OverflowsToInfinity) { check_the_end_of_the_range<half_format>(); }

TEST(Bfloat16Format, DecodesAndEncodesEveryPattern) { check_every_pattern<bfloat16_format>(); }
TEST(Bfloat16Format, RoundsEveryBoundaryToNearestEven) { check_every_boundary<bfloat16_format>(); }
TEST(Bfloat16Format, OverflowsToInfinity) {
  EXPECT_EQ(encode_float<bfloat16_format>(std::numeric_limits<float>::max()), 0x7f80u);
  EXPECT_EQ(encode_float<bfloat16_format>(std::numeric_limits<float>::infinity()), 0x7f80u);
  EXPECT_EQ(encode_float<bfloat16_format>(-std::numeric_limits<float>::infinity()), 0xff80u);
}

TEST(F8e4m3Format, DecodesAndEncodesEveryPattern) { check_every_pattern<f8e4m3_format>(); }
TEST(F8e4m3Format, RoundsEveryBoundaryToNearestEven) { check_every_boundary<f8e4m3_format>(); }
TEST(F8e4m3Format, SaturatesAtItsLargestValue) {
  check_the_end_of_the_range<f8e4m3_format>();
  EXPECT_EQ(float(F8e4m3(1e6f)), 448.0f);
}

TEST(F8e5m2Format, DecodesEveryPatternAndEncodesTheFiniteOnes) { check_every_pattern<f8e5m2_format>(); }
TEST(F8e5m2Format, RoundsEveryBoundaryToNearestEven) { check_every_boundary<f8e5m2_format>(); }
TEST(F8e5m2Format, SaturatesAtItsLargestValue) {
  check_the_end_of_the_range<f8e5m2_format>();
  EXPECT_EQ(float(F8e5m2(-1e6f)), -57344.0f);
}

}  // namespace
}  // namespace busbw

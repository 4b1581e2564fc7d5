// Element types as bits, for host and device: what memory holds, and the range in which sums are exact.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "engine/core/data_type.h"
#ifdef __CUDACC__
#define BUSBW_HOST_DEVICE __host__ __device__
#else
#define BUSBW_HOST_DEVICE
#endif

namespace busbw::pattern_detail {

BUSBW_HOST_DEVICE inline std::uint32_t bits_of(float x) {
  std::uint32_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}
BUSBW_HOST_DEVICE inline float float_of(std::uint32_t u) {
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}
BUSBW_HOST_DEVICE inline double double_of(std::uint64_t u) {
  double x;
  memcpy(&x, &u, sizeof x);
  return x;
}
BUSBW_HOST_DEVICE inline float power_of_two(int e) { return float_of(static_cast<std::uint32_t>(127 + e) << 23); }

// A float whose value is within the normal or subnormal range of a smaller format, rounded to nearest even.
template <int ExponentBits, int MantissaBits>
BUSBW_HOST_DEVICE inline std::uint32_t encode(float x) {
  constexpr int bias = (1 << (ExponentBits - 1)) - 1;
  constexpr int dropped = 23 - MantissaBits;
  const std::uint32_t u = bits_of(x);
  const std::uint32_t magnitude = u & 0x7fffffffU;
  const std::uint32_t sign = (u >> 31) << (ExponentBits + MantissaBits);
  const std::uint32_t rebased = magnitude - (static_cast<std::uint32_t>(127 - bias) << 23);
  const std::uint32_t normal = (rebased + ((1U << (dropped - 1)) - 1U) + ((rebased >> dropped) & 1U)) >> dropped;
  // Adding 2^k drops exactly the bits below the smallest subnormal of the format.
  const float magic = power_of_two(1 - bias - MantissaBits + 23);
  const std::uint32_t subnormal = bits_of(float_of(magnitude) + magic) - bits_of(magic);
  const bool is_normal = magnitude >= (static_cast<std::uint32_t>(127 + 1 - bias) << 23);
  return sign | (is_normal ? normal : subnormal);
}

// Floating formats: Bits is what memory holds, precision counts the implicit bit, exponents of sums lie in
// [low, low + span). wide is the type in which sums of small integers and the final scaling are exact.
template <typename BitsType, typename WideType, int ExponentBits, int MantissaBits, int Low, int Span>
struct FloatFormat {
  static constexpr bool is_integer = false;
  using Bits = BitsType;
  using Wide = WideType;
  static constexpr int exponent_bits = ExponentBits;
  static constexpr int mantissa_bits = MantissaBits;
  static constexpr int precision = MantissaBits + 1;
  static constexpr int low = Low;
  static constexpr int span = Span;
  BUSBW_HOST_DEVICE static Bits from(Wide x) {
    if constexpr (sizeof(Bits) == sizeof(Wide)) {
      Bits bits;
      memcpy(&bits, &x, sizeof bits);
      return bits;
    } else {
      return static_cast<Bits>(encode<ExponentBits, MantissaBits>(x));
    }
  }
};
template <typename BitsType, bool Signed>
struct IntegerFormat {
  static constexpr bool is_integer = true;
  static constexpr bool is_signed = Signed;
  using Bits = BitsType;
};

template <DataType Type>
struct Format;
template <>
struct Format<DataType::int8> : IntegerFormat<std::uint8_t, true> {};
template <>
struct Format<DataType::uint8> : IntegerFormat<std::uint8_t, false> {};
template <>
struct Format<DataType::int32> : IntegerFormat<std::uint32_t, true> {};
template <>
struct Format<DataType::uint32> : IntegerFormat<std::uint32_t, false> {};
template <>
struct Format<DataType::int64> : IntegerFormat<std::uint64_t, true> {};
template <>
struct Format<DataType::uint64> : IntegerFormat<std::uint64_t, false> {};
// Largest sum is 2^precision * 2^(low + span - 1), smallest 2^low: both inside the normal range of each format.
template <>
struct Format<DataType::float16> : FloatFormat<std::uint16_t, float, 5, 10, -8, 12> {};
template <>
struct Format<DataType::bfloat16> : FloatFormat<std::uint16_t, float, 8, 7, -16, 32> {};
template <>
struct Format<DataType::f8e4m3> : FloatFormat<std::uint8_t, float, 4, 3, -5, 9> {};
template <>
struct Format<DataType::f8e5m2> : FloatFormat<std::uint8_t, float, 5, 2, -8, 16> {};
template <>
struct Format<DataType::float32> : FloatFormat<std::uint32_t, float, 8, 23, -16, 32> {};
template <>
struct Format<DataType::float64> : FloatFormat<std::uint64_t, double, 11, 52, -16, 32> {};

}  // namespace busbw::pattern_detail

// Conversions between fp32 and the 16- and 8-bit floating-point formats of the NCCL API, in plain host code.
//
// All roundings are to nearest, ties to even. half and bfloat16 overflow to infinity, as IEEE 754 says. The 8-bit
// formats saturate: everything beyond the largest finite value, infinities included, becomes that value with its sign,
// which is what GPUs do in their conversion instructions (cvt.rn.satfinite). A NaN becomes the format's canonical quiet
// NaN. The code is branch-poor integer arithmetic, so that loops over it vectorise; always inlined, so that each loop
// is free to be compiled for its own instruction set. It relies on the default rounding mode.
#pragma once

#include <bit>
#include <cstdint>

namespace busbw {

// One small binary format: bits below the sign are `exponent_bits` then `mantissa_bits`.
struct FloatFormat {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  // Largest finite magnitude, as its bit pattern.
  std::uint32_t max_finite;
  // What a finite value too large for the format becomes; equal to max_finite where conversions saturate.
  std::uint32_t overflow;
  std::uint32_t canonical_nan;
  // Has the format infinities (all-ones exponent, empty mantissa)? If not, only `canonical_nan` is not a number.
  bool has_infinity;
};

inline constexpr FloatFormat half_format{5, 10, 15, 0x7bff, 0x7c00, 0x7e00, true};
inline constexpr FloatFormat bfloat16_format{8, 7, 127, 0x7f7f, 0x7f80, 0x7fc0, true};
inline constexpr FloatFormat f8e4m3_format{4, 3, 7, 0x7e, 0x7e, 0x7f, false};
inline constexpr FloatFormat f8e5m2_format{5, 2, 15, 0x7b, 0x7b, 0x7f, true};

namespace detail {

inline constexpr std::uint32_t sign_mask = 0x80000000u;
inline constexpr std::uint32_t float_infinity = 0x7f800000u;

template <FloatFormat F>
[[gnu::always_inline]] constexpr std::uint32_t encode_magnitude(std::uint32_t magnitude) {
  constexpr int dropped = 23 - F.mantissa_bits;
  constexpr std::uint32_t min_normal = std::uint32_t(127 - F.bias + 1) << 23;
  // Adding this power of two makes the FPU round a subnormal result at its last kept bit.
  constexpr std::uint32_t subnormal_magic = F.bias == 127 ? 0 : std::uint32_t(127 - F.bias + dropped + 1) << 23;
  const std::uint32_t odd = (magnitude >> dropped) & 1;
  const std::uint32_t rebias = std::uint32_t(F.bias - 127) << 23;
  const std::uint32_t normal = (magnitude + rebias + ((1u << (dropped - 1)) - 1) + odd) >> dropped;
  if constexpr (F.bias == 127) return normal;
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + std::bit_cast<float>(subnormal_magic)) -
      subnormal_magic;
  return magnitude >= min_normal ? normal : subnormal;
}

}  // namespace detail

// The bit pattern of `value` rounded into format F.
template <FloatFormat F>
[[gnu::always_inline]] constexpr std::uint32_t encode_float(float value) {
  constexpr int sign_shift = 31 - F.exponent_bits - F.mantissa_bits;
  constexpr std::uint32_t max_as_float_bits = (std::uint32_t(F.max_finite >> F.mantissa_bits) + 127 - F.bias) << 23 |
                                              (F.max_finite & ((1u << F.mantissa_bits) - 1)) << (23 - F.mantissa_bits);
  // From halfway between max_finite and its successor on, rounding leaves the finite range.
  constexpr std::uint32_t beyond = max_as_float_bits + (1u << (22 - F.mantissa_bits));
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & ~detail::sign_mask;
  const std::uint32_t sign = (bits & detail::sign_mask) >> sign_shift;
  // A tie at `beyond` goes to the even neighbour, which is the finite one only where max_finite is even.
  constexpr std::uint32_t limit = beyond + ((F.max_finite & 1) == 0 ? 1 : 0);
  std::uint32_t result = detail::encode_magnitude<F>(magnitude < limit ? magnitude : 0);
  result = magnitude < limit ? result : F.overflow;
  result = magnitude > detail::float_infinity ? F.canonical_nan : result | sign;
  return result;
}

// The exact value of bit pattern `bits` of format F.
template <FloatFormat F>
[[gnu::always_inline]] constexpr float decode_float(std::uint32_t bits) {
  constexpr int shift = 23 - F.mantissa_bits;
  constexpr std::uint32_t magnitude_mask = (1u << (F.exponent_bits + F.mantissa_bits)) - 1;
  constexpr int sign_shift = 31 - F.exponent_bits - F.mantissa_bits;
  const std::uint32_t sign = (bits << sign_shift) & detail::sign_mask;
  const std::uint32_t small = bits & magnitude_mask;
  if constexpr (F.bias == 127) return std::bit_cast<float>(sign | small << shift);
  constexpr std::uint32_t rebias = std::uint32_t(127 - F.bias) << 23;
  // A subnormal is its mantissa times the format's smallest step, which an int-to-float conversion gives exactly.
  constexpr float step = std::bit_cast<float>(std::uint32_t(127 - F.bias + 1 - F.mantissa_bits) << 23);
  const bool subnormal = small < (1u << F.mantissa_bits);
  std::uint32_t result = (small << shift) + rebias;
  const std::uint32_t tiny = std::bit_cast<std::uint32_t>(float(std::int32_t(small)) * step);
  result = subnormal ? tiny : result;
  if constexpr (F.has_infinity) {
    constexpr std::uint32_t infinity = ((1u << F.exponent_bits) - 1) << F.mantissa_bits;
    result = small >= infinity ? detail::float_infinity | (small - infinity) << shift : result;
  } else {
    result = small == F.canonical_nan ? 0x7fc00000u : result;
  }
  return std::bit_cast<float>(result | sign);
}

// Storage types with the layout of the NCCL API's element types.
template <FloatFormat F, class Bits>
struct SmallFloat {
  Bits bits;
  SmallFloat() = default;
  [[gnu::always_inline]] explicit constexpr SmallFloat(float value) : bits(Bits(encode_float<F>(value))) {}
  [[gnu::always_inline]] constexpr operator float() const { return decode_float<F>(bits); }
};

using Half = SmallFloat<half_format, std::uint16_t>;
using Bfloat16 = SmallFloat<bfloat16_format, std::uint16_t>;
using F8e4m3 = SmallFloat<f8e4m3_format, std::uint8_t>;
using F8e5m2 = SmallFloat<f8e5m2_format, std::uint8_t>;

static_assert(sizeof(Half) == 2 && sizeof(Bfloat16) == 2 && sizeof(F8e4m3) == 1 && sizeof(F8e5m2) == 1);

}  // namespace busbw

// The promise of the patterns: any order of reduction, rounded to the type at every step, gives the expected bits.
#include "engine/core/pattern.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

namespace busbw {
namespace {

using pattern_detail::Format;

// The value of a small format, straight from its definition.
template <DataType Type>
double decode(typename Format<Type>::Bits bits) {
  using F = Format<Type>;
  if constexpr (sizeof(typename F::Bits) == sizeof(typename F::Wide)) {
    typename F::Wide value;
    std::memcpy(&value, &bits, sizeof value);
    return static_cast<double>(value);
  } else {
    const int bias = (1 << (F::exponent_bits - 1)) - 1;
    const int exponent = (bits >> F::mantissa_bits) & ((1 << F::exponent_bits) - 1);
    const int mantissa = bits & ((1 << F::mantissa_bits) - 1);
    const double sign = (bits >> (F::exponent_bits + F::mantissa_bits)) != 0 ? -1 : 1;
    if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - F::mantissa_bits);
    return sign * std::ldexp(mantissa + (1 << F::mantissa_bits), exponent - bias - F::mantissa_bits);
  }
}

template <DataType Type>
void floats_are_exact_in_any_order(PatternKind kind, int ranks) {
  using F = Format<Type>;
  const Pattern p{.type = Type, .kind = kind, .ranks = ranks, .seed = 5};
  std::vector<int> order(static_cast<std::size_t>(ranks));
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 random(11);
  for (std::uint64_t index = 0; index < 300; ++index) {
    std::shuffle(order.begin(), order.end(), random);
    const auto term = [&](int rank) {
      const double value = decode<Type>(contribution<Type>(p, rank, index));
      return kind == PatternKind::mulsum ? value * mulsum_scalar(rank) : value;
    };
    double result = term(order[0]);
    for (std::size_t i = 1; i < order.size(); ++i) {
      const double next = term(order[i]);
      switch (kind) {
        case PatternKind::sum:
        case PatternKind::mulsum:
          result += next;
          break;
        case PatternKind::prod:
          result *= next;
          break;
        case PatternKind::max:
          result = std::max(result, next);
          break;
        case PatternKind::min:
          result = std::min(result, next);
          break;
        case PatternKind::avg:
        case PatternKind::copy:
          FAIL();
      }
      // Every partial result must be a value of the type.
      const auto bits = F::from(static_cast<typename F::Wide>(result));
      ASSERT_EQ(decode<Type>(bits), result) << name(Type) << " partial result of " << ranks << " ranks at " << index;
    }
    ASSERT_EQ(F::from(static_cast<typename F::Wide>(result)), reduction<Type>(p, index))
        << name(Type) << " kind " << static_cast<int>(kind) << " ranks " << ranks << " index " << index;
  }
}

template <DataType Type>
void averages_fit(int ranks) {
  using F = Format<Type>;
  const Pattern p{.type = Type, .kind = PatternKind::avg, .ranks = ranks, .seed = 5};
  for (std::uint64_t index = 0; index < 300; ++index) {
    double total = 0;
    for (int r = 0; r < ranks; ++r) {
      const double value = decode<Type>(contribution<Type>(p, r, index));
      ASSERT_GE(value, 0);
      total += value;
    }
    const double expected = decode<Type>(reduction<Type>(p, index));
    ASSERT_NEAR(expected, total / ranks, std::ldexp(total / ranks, -F::precision)) << name(Type) << " " << ranks;
  }
}

template <DataType... Types>
void for_each(auto&& action) {
  (action.template operator()<Types>(), ...);
}

TEST(Pattern, FloatReductionsAreExactInAnyOrder) {
  for (const int ranks : {1, 2, 3, 5, 8, 17, 64, 200})
    for (const PatternKind kind :
         {PatternKind::sum, PatternKind::mulsum, PatternKind::prod, PatternKind::max, PatternKind::min})
      for_each<DataType::float16, DataType::bfloat16, DataType::f8e4m3, DataType::f8e5m2, DataType::float32,
               DataType::float64>([&]<DataType Type>() { floats_are_exact_in_any_order<Type>(kind, ranks); });
}

TEST(Pattern, AveragesOfFloatsAreRoundedOnce) {
  for (const int ranks : {2, 3, 4, 7, 8, 64})
    for_each<DataType::float16, DataType::bfloat16, DataType::f8e4m3, DataType::f8e5m2, DataType::float32,
             DataType::float64>([&]<DataType Type>() { averages_fit<Type>(ranks); });
}

TEST(Pattern, IntegersWrapAround) {
  const Pattern p{.type = DataType::int8, .kind = PatternKind::prod, .ranks = 4, .seed = 3};
  for (std::uint64_t index = 0; index < 1000; ++index) {
    std::uint8_t product = 1;
    for (int r = 0; r < 4; ++r)
      product = static_cast<std::uint8_t>(product * contribution<DataType::int8>(p, r, index));
    ASSERT_EQ(product, reduction<DataType::int8>(p, index));
  }
}

TEST(Pattern, SignedIntegersCompareAsSigned) {
  const Pattern p{.type = DataType::int32, .kind = PatternKind::max, .ranks = 3, .seed = 3};
  for (std::uint64_t index = 0; index < 1000; ++index) {
    std::int32_t largest = INT32_MIN;
    for (int r = 0; r < 3; ++r)
      largest = std::max(largest, static_cast<std::int32_t>(contribution<DataType::int32>(p, r, index)));
    ASSERT_EQ(static_cast<std::uint32_t>(largest), reduction<DataType::int32>(p, index));
  }
}

TEST(Pattern, IntegerAveragesStayInRange) {
  for (const int ranks : {2, 3, 100, 300}) {
    const Pattern p{.type = DataType::int8, .kind = PatternKind::avg, .ranks = ranks, .seed = 3};
    for (std::uint64_t index = 0; index < 300; ++index) {
      int total = 0;
      for (int r = 0; r < ranks; ++r) total += static_cast<std::int8_t>(contribution<DataType::int8>(p, r, index));
      ASSERT_LE(total, 127);
      ASSERT_EQ(total / ranks, reduction<DataType::int8>(p, index));
    }
  }
}

TEST(Pattern, DiffersByRankElementAndSeed) {
  const Pattern p{.type = DataType::float32, .kind = PatternKind::copy, .ranks = 2, .seed = 1};
  Pattern other = p;
  other.seed = 2;
  int same_rank = 0, same_element = 0, same_seed = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    same_rank += contribution<DataType::float32>(p, 0, i) == contribution<DataType::float32>(p, 1, i);
    same_element += contribution<DataType::float32>(p, 0, i) == contribution<DataType::float32>(p, 0, i + 1);
    same_seed += contribution<DataType::float32>(p, 0, i) == contribution<DataType::float32>(other, 0, i);
  }
  EXPECT_LT(same_rank + same_element + same_seed, 3);
}

}  // namespace
}  // namespace busbw

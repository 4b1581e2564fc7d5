// Inputs and expected results of a collective, as pure functions of (seed, rank, element index), for host and device.
//
// Every reduction over these inputs is exact in any order and in the element type itself, so that a single wrong bit
// counts as a wrong element:
//   sum, mulsum  floats: integers whose absolute values add up to at most 2^precision, at one exponent per element
//   prod         floats: one rank holds a full mantissa, at most four others a power of two, the rest plus or minus one
//   avg          floats: at most two ranks are non-zero and both positive; the one operation with a tolerance, because
//                a library may scale by 1/n before or after adding. Integers: non-negative, sum within range
//   max, min     full mantissas at middle exponents; and integers for every operation: any bits, arithmetic modulo 2^w
//   copy         any bits
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "engine/core/data_type.h"
#include "engine/core/element_format.h"

namespace busbw {

enum class PatternKind : int { copy, sum, prod, max, min, avg, mulsum };

struct Pattern {
  DataType type = DataType::float32;
  PatternKind kind = PatternKind::copy;
  int ranks = 1;
  std::uint32_t seed = 0;
};

// A stretch of a buffer and where its elements come from.
struct Segment {
  enum class Source : int { contribution, reduction };
  std::size_t offset = 0;  // elements from the start of the buffer
  std::size_t count = 0;   // elements
  Source source = Source::contribution;
  int rank = 0;                   // whose contribution; unused for a reduction
  std::size_t source_offset = 0;  // index of the first element in the contribution or reduction
};

inline PatternKind pattern_kind(RedOp op) {
  switch (op) {
    case RedOp::sum:
      return PatternKind::sum;
    case RedOp::prod:
      return PatternKind::prod;
    case RedOp::max:
      return PatternKind::max;
    case RedOp::min:
      return PatternKind::min;
    case RedOp::avg:
      return PatternKind::avg;
    case RedOp::mulsum:
      return PatternKind::mulsum;
  }
  return PatternKind::copy;
}

// Distance in units of the last place that still counts as right.
inline int tolerance_units(const Pattern& pattern) {
  return pattern.kind == PatternKind::avg && is_floating(pattern.type) && pattern.ranks > 1 ? 2 : 0;
}

// Scalar of mulsum on one rank.
BUSBW_HOST_DEVICE inline int mulsum_scalar(int rank) { return rank % 2 == 0 ? 1 : 2; }

namespace pattern_detail {

// Bijective mixer of 32 bits (two multiplications: vectorises on the host).
BUSBW_HOST_DEVICE inline std::uint32_t mix(std::uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352dU;
  x ^= x >> 15;
  x *= 0x846ca68bU;
  x ^= x >> 16;
  return x;
}

// What 2^32 neighbouring elements share: a loop over fewer computes it once.
BUSBW_HOST_DEVICE inline std::uint32_t window_hash(const Pattern& p, std::uint64_t index) {
  return mix(static_cast<std::uint32_t>(index >> 32) ^ (p.seed * 0x9e3779b9U));
}

// What all ranks share for one element.
BUSBW_HOST_DEVICE inline std::uint32_t element_hash(std::uint32_t window, std::uint32_t low_index) {
  return mix(low_index + window);
}
BUSBW_HOST_DEVICE inline std::uint32_t element_hash(const Pattern& p, std::uint64_t index) {
  return element_hash(window_hash(p, index), static_cast<std::uint32_t>(index));
}

// What one rank has for one element.
BUSBW_HOST_DEVICE inline std::uint32_t rank_hash(std::uint32_t element, int rank) {
  return mix(element ^ (static_cast<std::uint32_t>(rank + 1) * 0x85ebca6bU));
}

// One of 0..n-1, evenly: a division by n would not vectorise.
BUSBW_HOST_DEVICE inline std::uint32_t choose(std::uint32_t hash, int n) {
  return static_cast<std::uint32_t>((static_cast<std::uint64_t>(hash) * static_cast<std::uint32_t>(n)) >> 32);
}

// Where `rank` stands in a row of all ranks that starts at a different one for each element.
BUSBW_HOST_DEVICE inline std::uint32_t place_in_row(std::uint32_t element, int rank, int ranks) {
  const std::uint32_t place = static_cast<std::uint32_t>(rank) + choose(element, ranks);
  return place >= static_cast<std::uint32_t>(ranks) ? place - static_cast<std::uint32_t>(ranks) : place;
}

template <typename F>
BUSBW_HOST_DEVICE inline typename F::Bits random_bits(std::uint32_t hash) {
  if constexpr (sizeof(typename F::Bits) == 8) {
    return static_cast<std::uint64_t>(hash) << 32 | mix(hash ^ 0x5bd1e995U);
  } else {
    return static_cast<typename F::Bits>(hash >> (32 - 8 * sizeof(typename F::Bits)));
  }
}

// One integer share of a sum with a budget: |share| <= limit / ranks, or 1 on `limit` ranks where there are more ranks.
BUSBW_HOST_DEVICE inline std::int32_t share(std::uint32_t element, int rank, int ranks, std::uint32_t limit,
                                            bool negative) {
  const std::uint32_t hash = rank_hash(element, rank);
  const std::uint32_t each = limit / static_cast<std::uint32_t>(ranks);
  if (each == 0) {
    if (place_in_row(element, rank, ranks) >= limit) return 0;
    return negative && (hash & 1U) ? -1 : 1;
  }
  // Multiply and shift maps the hash evenly onto 0..span-1 without a division.
  if (!negative) return static_cast<std::int32_t>((static_cast<std::uint64_t>(hash) * (each + 1U)) >> 32);
  return static_cast<std::int32_t>((static_cast<std::uint64_t>(hash) * (2U * each + 1U)) >> 32) -
         static_cast<std::int32_t>(each);
}

// Sums stay below 2^24 even in double, so that one 32-bit share serves every format.
template <typename F>
BUSBW_HOST_DEVICE constexpr std::uint32_t sum_limit() {
  return 1U << (F::precision < 24 ? F::precision : 24);
}

// mulsum doubles the shares of odd ranks: half the budget keeps every partial sum within the whole one.
template <typename F>
BUSBW_HOST_DEVICE inline std::int32_t sum_share(const Pattern& p, std::uint32_t element, int rank) {
  constexpr std::uint32_t limit = sum_limit<F>();
  return share(element, rank, p.ranks, p.kind == PatternKind::mulsum ? limit / 2 : limit, true);
}

template <typename F>
BUSBW_HOST_DEVICE inline typename F::Wide sum_scale(std::uint32_t element) {
  return static_cast<typename F::Wide>(power_of_two(F::low + static_cast<int>((element >> 7) % F::span)));
}

// avg: exponent that keeps value / ranks in the normal range of the format.
template <typename F>
BUSBW_HOST_DEVICE inline typename F::Wide avg_scale(int ranks) {
  int e = 0;
  while ((1 << e) < ranks && e < 6) ++e;
  return static_cast<typename F::Wide>(power_of_two(e - (F::precision < 5 ? 2 : 0)));
}

template <typename F>
BUSBW_HOST_DEVICE inline typename F::Wide avg_share(const Pattern& p, std::uint32_t element, int rank) {
  const std::uint32_t first = choose(element, p.ranks);
  const std::uint32_t second = choose(element * 0x9e3779b1U, p.ranks);
  const bool has_share = static_cast<std::uint32_t>(rank) == first || static_cast<std::uint32_t>(rank) == second;
  const std::uint32_t top = 1U << (F::precision < 12 ? F::precision - 1 : 11);
  const auto value = static_cast<typename F::Wide>(1U + (rank_hash(element, rank) & (top - 1U)));
  return has_share ? value * avg_scale<F>(p.ranks) : typename F::Wide(0);
}

// prod: the carrier's mantissa, or a signed power of two on up to four ranks, or a sign.
template <typename F>
BUSBW_HOST_DEVICE inline typename F::Wide prod_factor(const Pattern& p, std::uint32_t element, int rank) {
  using Wide = typename F::Wide;
  const std::uint32_t hash = rank_hash(element, rank);
  const std::uint32_t place = place_in_row(element, rank, p.ranks);
  const Wide sign = hash & 1U ? Wide(-1) : Wide(1);
  if (place == 0) {
    constexpr int digits = F::mantissa_bits < 23 ? F::mantissa_bits : 23;
    return sign * (Wide(1) + static_cast<Wide>(hash >> (32 - digits)) * static_cast<Wide>(power_of_two(-digits)));
  }
  if (place > 4) return sign;
  const int e = static_cast<int>((hash >> 1) % 3U) - 1;
  return sign * static_cast<Wide>(power_of_two(e));
}

// max, min: any mantissa and sign at one of eight middle exponents.
template <typename F>
BUSBW_HOST_DEVICE inline typename F::Wide middle_value(std::uint32_t hash) {
  using Wide = typename F::Wide;
  constexpr int digits = F::mantissa_bits < 23 ? F::mantissa_bits : 23;
  const Wide mantissa = Wide(1) + static_cast<Wide>(hash >> (32 - digits)) * static_cast<Wide>(power_of_two(-digits));
  const Wide scale = static_cast<Wide>(power_of_two(static_cast<int>((hash >> 1) & 7U) - 4));
  return hash & 1U ? -mantissa * scale : mantissa * scale;
}

// Integers for avg: shares whose sum stays within range, never negative.
template <typename F>
BUSBW_HOST_DEVICE inline std::int32_t integer_avg_share(const Pattern& p, std::uint32_t element, int rank) {
  constexpr std::uint32_t limit = sizeof(typename F::Bits) == 1 ? (F::is_signed ? 127U : 255U) : 0x7fffffffU;
  return share(element, rank, p.ranks, limit, false);
}

// One rank's input and the reduction over all ranks, in steps, so that a loop over elements can run inside the loop
// over ranks, where it vectorises. The kind is a template argument: no branch on it is left in a loop.
//   input     what a rank has
//   encode    an input as the bits that memory holds
//   weighted  what an input adds to the reduction
//   add       two partial reductions into one
//   finish    the reduction over all ranks as the bits that memory holds
template <DataType Type, PatternKind Kind>
struct IntegerReduction {
  using F = Format<Type>;
  using Bits = typename F::Bits;
  using State = std::conditional_t<sizeof(Bits) == 8, std::uint64_t, std::uint32_t>;

  BUSBW_HOST_DEVICE static State input(const Pattern& p, std::uint32_t element, int rank) {
    if constexpr (Kind == PatternKind::avg) return static_cast<State>(integer_avg_share<F>(p, element, rank));
    return random_bits<F>(rank_hash(element, rank));
  }
  BUSBW_HOST_DEVICE static Bits encode(State input, std::uint32_t) { return static_cast<Bits>(input); }
  BUSBW_HOST_DEVICE static State weighted(State input, int rank) {
    return Kind == PatternKind::mulsum ? input * static_cast<State>(mulsum_scalar(rank)) : input;
  }
  BUSBW_HOST_DEVICE static State add(State a, State b) {
    if constexpr (Kind == PatternKind::prod) return a * b;
    if constexpr (Kind == PatternKind::max || Kind == PatternKind::min) {
      // Flipping the sign bit orders signed numbers as unsigned ones.
      constexpr State sign_bit = F::is_signed ? State(1) << (8 * sizeof(Bits) - 1) : State(0);
      const bool larger = (b ^ sign_bit) > (a ^ sign_bit);
      return larger == (Kind == PatternKind::max) ? b : a;
    }
    return a + b;
  }
  BUSBW_HOST_DEVICE static Bits finish(const Pattern& p, State state, std::uint32_t) {
    // Exact: the total is below 2^31, and a quotient in double rounds to no other integer.
    if constexpr (Kind == PatternKind::avg)
      return static_cast<Bits>(static_cast<std::int32_t>(static_cast<double>(static_cast<std::int32_t>(state)) /
                                                         static_cast<double>(p.ranks)));
    return static_cast<Bits>(state);
  }
};

template <DataType Type, PatternKind Kind>
struct FloatReduction {
  using F = Format<Type>;
  using Bits = typename F::Bits;
  using Wide = typename F::Wide;
  // Shares of a sum are added as integers, and scaled once.
  static constexpr bool adds_shares = Kind == PatternKind::sum || Kind == PatternKind::mulsum;
  using State = std::conditional_t<adds_shares, std::int32_t, Wide>;

  BUSBW_HOST_DEVICE static State input(const Pattern& p, std::uint32_t element, int rank) {
    if constexpr (adds_shares) return sum_share<F>(p, element, rank);
    if constexpr (Kind == PatternKind::prod) return prod_factor<F>(p, element, rank);
    if constexpr (Kind == PatternKind::avg) return avg_share<F>(p, element, rank);
    return middle_value<F>(rank_hash(element, rank));
  }
  BUSBW_HOST_DEVICE static Bits encode(State input, std::uint32_t element) {
    if constexpr (adds_shares) return F::from(static_cast<Wide>(input) * sum_scale<F>(element));
    return F::from(input);
  }
  BUSBW_HOST_DEVICE static State weighted(State input, int rank) {
    return Kind == PatternKind::mulsum ? input * mulsum_scalar(rank) : input;
  }
  BUSBW_HOST_DEVICE static State add(State a, State b) {
    if constexpr (Kind == PatternKind::prod) return a * b;
    if constexpr (Kind == PatternKind::max) return b > a ? b : a;
    if constexpr (Kind == PatternKind::min) return b < a ? b : a;
    return a + b;
  }
  BUSBW_HOST_DEVICE static Bits finish(const Pattern& p, State state, std::uint32_t element) {
    if constexpr (Kind == PatternKind::avg) state /= static_cast<Wide>(p.ranks);
    return encode(state, element);
  }
};

// Copies move any bits, of floats too.
template <DataType Type>
struct AnyBits {
  using F = Format<Type>;
  using Bits = typename F::Bits;
  using State = Bits;
  BUSBW_HOST_DEVICE static State input(const Pattern&, std::uint32_t element, int rank) {
    return random_bits<F>(rank_hash(element, rank));
  }
  BUSBW_HOST_DEVICE static Bits encode(State input, std::uint32_t) { return input; }
  BUSBW_HOST_DEVICE static State weighted(State input, int) { return input; }
  BUSBW_HOST_DEVICE static State add(State a, State) { return a; }
  BUSBW_HOST_DEVICE static Bits finish(const Pattern&, State state, std::uint32_t) { return state; }
};

template <DataType Type, PatternKind Kind>
using Reduction = std::conditional_t<
    Kind == PatternKind::copy, AnyBits<Type>,
    std::conditional_t<Format<Type>::is_integer, IntegerReduction<Type, Kind>, FloatReduction<Type, Kind>>>;

template <DataType Type, PatternKind Kind>
BUSBW_HOST_DEVICE inline typename Format<Type>::Bits contribution_of(const Pattern& p, int rank,
                                                                     std::uint32_t element) {
  using R = Reduction<Type, Kind>;
  return R::encode(R::input(p, element, rank), element);
}

template <DataType Type, PatternKind Kind>
BUSBW_HOST_DEVICE inline typename Format<Type>::Bits reduction_of(const Pattern& p, std::uint32_t element) {
  using R = Reduction<Type, Kind>;
  auto state = R::weighted(R::input(p, element, 0), 0);
  for (int r = 1; r < p.ranks; ++r) state = R::add(state, R::weighted(R::input(p, element, r), r));
  return R::finish(p, state, element);
}

}  // namespace pattern_detail

// Calls `function` with the kind as a constant.
template <typename Function>
decltype(auto) with_kind(PatternKind kind, Function&& function) {
  switch (kind) {
    case PatternKind::sum:
      return function(std::integral_constant<PatternKind, PatternKind::sum>());
    case PatternKind::prod:
      return function(std::integral_constant<PatternKind, PatternKind::prod>());
    case PatternKind::max:
      return function(std::integral_constant<PatternKind, PatternKind::max>());
    case PatternKind::min:
      return function(std::integral_constant<PatternKind, PatternKind::min>());
    case PatternKind::avg:
      return function(std::integral_constant<PatternKind, PatternKind::avg>());
    case PatternKind::mulsum:
      return function(std::integral_constant<PatternKind, PatternKind::mulsum>());
    case PatternKind::copy:
      break;
  }
  return function(std::integral_constant<PatternKind, PatternKind::copy>());
}

// What `rank` puts in at `index`, as raw bits.
template <DataType Type>
typename pattern_detail::Format<Type>::Bits contribution(const Pattern& p, int rank, std::uint64_t index) {
  const std::uint32_t element = pattern_detail::element_hash(p, index);
  return with_kind(p.kind, [&](auto kind) {
    return pattern_detail::contribution_of<Type, decltype(kind)::value>(p, rank, element);
  });
}

// What the reduction over all ranks must give at `index`, as raw bits.
template <DataType Type>
typename pattern_detail::Format<Type>::Bits reduction(const Pattern& p, std::uint64_t index) {
  const std::uint32_t element = pattern_detail::element_hash(p, index);
  return with_kind(p.kind,
                   [&](auto kind) { return pattern_detail::reduction_of<Type, decltype(kind)::value>(p, element); });
}

}  // namespace busbw

// Reducing packs: 16- and 8-bit floating-point types accumulate in fp32 and are rounded once, ranks are taken in their
// order, so that every rank, algorithm and run gives the same bits. The same sums as library/cpu/reduce_kernels.inc.
#pragma once

#include "busbw/float_formats.h"
#include "library/gpu/kernels/arguments.h"
#include "library/gpu/kernels/pack.h"

namespace busbw::gpu {

// Bits: how the element is stored. Wide: what it accumulates in.
template <typename T>
struct Element {
  using Bits = T;
  using Wide = T;
  BUSBW_DEVICE static Wide widen(Bits bits) { return bits; }
  BUSBW_DEVICE static Bits narrow(Wide value) { return value; }
};

template <>
struct Element<Half> {
  using Bits = std::uint16_t;
  using Wide = float;
  BUSBW_DEVICE static float widen(Bits bits) {
#ifdef __CUDA_ARCH__
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
#else
    return decode_float<half_format>(bits);
#endif
  }
  BUSBW_DEVICE static Bits narrow(float value) {
#ifdef __CUDA_ARCH__
    Bits bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
#else
    return static_cast<Bits>(encode_float<half_format>(value));
#endif
  }
};

template <>
struct Element<Bfloat16> {
  using Bits = std::uint16_t;
  using Wide = float;
  BUSBW_DEVICE static float widen(Bits bits) { return decode_float<bfloat16_format>(bits); }
  BUSBW_DEVICE static Bits narrow(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    Bits bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
#else
    return static_cast<Bits>(encode_float<bfloat16_format>(value));
#endif
  }
};

template <FloatFormat Format>
struct EightBitElement {
  using Bits = std::uint8_t;
  using Wide = float;
  BUSBW_DEVICE static float widen(Bits bits) { return decode_float<Format>(bits); }
  BUSBW_DEVICE static Bits narrow(float value) { return static_cast<Bits>(encode_float<Format>(value)); }
};

template <>
struct Element<F8e4m3> : EightBitElement<f8e4m3_format> {};
template <>
struct Element<F8e5m2> : EightBitElement<f8e5m2_format> {};

// Integer overflow wraps; in C++ only unsigned types may.
template <typename T>
struct Wrapping {
  using type = T;
};
template <>
struct Wrapping<std::int8_t> {
  using type = std::uint8_t;
};
template <>
struct Wrapping<std::int32_t> {
  using type = std::uint32_t;
};
template <>
struct Wrapping<std::int64_t> {
  using type = std::uint64_t;
};

template <ReduceOp op, typename Wide>
BUSBW_DEVICE Wide combine(Wide a, Wide b) {
  using U = typename Wrapping<Wide>::type;
  if constexpr (op == op_prod) return static_cast<Wide>(static_cast<U>(a) * static_cast<U>(b));
  // A number wins over a NaN, as with fmax and fmin.
  if constexpr (op == op_max) return b != b ? a : (a > b ? a : b);
  if constexpr (op == op_min) return b != b ? a : (a < b ? a : b);
  return static_cast<Wide>(static_cast<U>(a) + static_cast<U>(b));
}

template <typename Wide>
BUSBW_DEVICE Wide averaged(Wide total, int ranks) {
  if constexpr (static_cast<Wide>(0.5f) != Wide(0)) {
    return total * (Wide(1) / static_cast<Wide>(ranks));
  } else {
    return static_cast<Wide>(total / static_cast<Wide>(ranks));
  }
}

// One pack of every rank, of `Most` at most.
template <int Bytes, int Most>
struct PackOfEach {
  Pack<Bytes> from[Most];
};

template <typename T, int Bytes>
class PackReduction {
 public:
  using Bits = typename Element<T>::Bits;

  BUSBW_DEVICE static Bits element(const Pack<Bytes>& pack, int i) {
    if constexpr (sizeof(Bits) == 8) {
      const std::uint64_t both = static_cast<std::uint64_t>(pack.word[2 * i + 1]) << 32 | pack.word[2 * i];
      return __builtin_bit_cast(Bits, both);
    } else if constexpr (sizeof(Bits) == 4) {
      return __builtin_bit_cast(Bits, pack.word[i]);
    } else {
      constexpr int bytes = sizeof(Bits);
      return static_cast<Bits>(pack.word[i * bytes / 4] >> (8 * (i * bytes % 4)));
    }
  }

  BUSBW_DEVICE static void put(Pack<Bytes>& pack, int i, Bits bits) {
    if constexpr (sizeof(Bits) == 8) {
      const std::uint64_t both = __builtin_bit_cast(std::uint64_t, bits);
      pack.word[2 * i] = static_cast<std::uint32_t>(both);
      pack.word[2 * i + 1] = static_cast<std::uint32_t>(both >> 32);
    } else if constexpr (sizeof(Bits) == 4) {
      pack.word[i] = __builtin_bit_cast(std::uint32_t, bits);
    } else {
      constexpr int bytes = sizeof(Bits);
      using Unsigned = typename Wrapping<Bits>::type;
      pack.word[i * bytes / 4] |= static_cast<std::uint32_t>(static_cast<Unsigned>(bits)) << (8 * (i * bytes % 4));
    }
  }

  template <int Most>
  BUSBW_DEVICE static Pack<Bytes> run(const PackOfEach<Bytes, Most>& row, int ranks, ReduceOp op) {
    // One branch for a pack, and straight code behind it.
    switch (op) {
      case op_prod:
        return reduce<op_prod>(row, ranks, false);
      case op_max:
        return reduce<op_max>(row, ranks, false);
      case op_min:
        return reduce<op_min>(row, ranks, false);
      default:
        return reduce<op_sum>(row, ranks, op == op_avg);
    }
  }

 private:
  using Wide = typename Element<T>::Wide;
  static constexpr int elements = Bytes / sizeof(Bits);

  template <ReduceOp op, int Most>
  BUSBW_DEVICE static Pack<Bytes> reduce(const PackOfEach<Bytes, Most>& row, int ranks, bool average) {
    Wide total[elements];
    BUSBW_UNROLL
    for (int i = 0; i < elements; ++i) total[i] = Element<T>::widen(element(row.from[0], i));
    BUSBW_UNROLL
    for (int source = 1; source < Most; ++source) {
      if (Most > 2 && source >= ranks) continue;
      BUSBW_UNROLL
      for (int i = 0; i < elements; ++i)
        total[i] = combine<op, Wide>(total[i], Element<T>::widen(element(row.from[source], i)));
    }
    Pack<Bytes> result{};
    BUSBW_UNROLL
    for (int i = 0; i < elements; ++i)
      put(result, i, Element<T>::narrow(average ? averaged<Wide>(total[i], ranks) : total[i]));
    return result;
  }
};

}  // namespace busbw::gpu

// A slow, plain reference of every collective: what each rank's receive buffer must hold, bit by bit.
#pragma once

#include <cstdint>
#include <cstring>
#include <list>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "busbw/float_formats.h"
#include "library/cpu/collective.h"

namespace busbw::cpu::test {

using Bytes = std::vector<unsigned char>;

// Per call and rank: the whole send buffer, and the scalar of premul_sum.
struct Inputs {
  std::vector<Bytes> send;
  std::vector<std::uint64_t> scalars;
};

// splitmix64 (Steele, Lea, Flood 2014): most of the time of these tests went into drawing their numbers.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : state_(seed) {}
  std::uint64_t operator()() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }

 private:
  std::uint64_t state_;
};

// A finite value of the type, so that every bit of the result is determined: random, with rounding in floats.
inline std::uint64_t random_element(ncclDataType_t type, Draw& random) {
  std::uint64_t bits = 0;
  const std::uint64_t drawn = random();
  const float value = float(std::int32_t(drawn >> 32)) * 0x1p-30f;  // from -2 to 2
  switch (type) {
    case ncclFloat32:
      std::memcpy(&bits, &value, 4);
      return bits;
    case ncclFloat64: {
      const double wide = double(value) * 1.000000123;
      std::memcpy(&bits, &wide, 8);
      return bits;
    }
    case ncclFloat16:
      return Half(value).bits;
    case ncclBfloat16:
      return Bfloat16(value).bits;
    case ncclFloat8e4m3:
      return F8e4m3(value).bits;
    case ncclFloat8e5m2:
      return F8e5m2(value).bits;
    default:
      return drawn;
  }
}

inline Inputs random_inputs(const Collective& call, int ranks, std::uint32_t seed) {
  Inputs inputs;
  const std::size_t element = element_size(call.type);
  Draw random(seed);
  for (int rank = 0; rank < ranks; ++rank) {
    Bytes& bytes = inputs.send.emplace_back(send_elements(call, ranks) * element);
    for (std::size_t i = 0; i < bytes.size(); i += element) {
      const std::uint64_t value = random_element(call.type, random);
      std::memcpy(bytes.data() + i, &value, element);
    }
    inputs.scalars.push_back(random_element(call.type, random));
  }
  return inputs;
}

// The same for all ranks of a process, which ask for it at about the same time: drawn once.
inline std::shared_ptr<const Inputs> shared_inputs(const Collective& call, int ranks, std::uint32_t seed) {
  using Key = std::tuple<CollectiveKind, ncclDataType_t, std::size_t, int, std::uint32_t>;
  static std::mutex guard;
  static std::list<std::pair<Key, std::shared_ptr<const Inputs>>> recent;
  const Key key{call.kind, call.type, call.count, ranks, seed};
  const std::lock_guard lock(guard);
  for (const auto& [known, inputs] : recent)
    if (known == key) return inputs;
  recent.emplace_front(key, std::make_shared<const Inputs>(random_inputs(call, ranks, seed)));
  if (recent.size() > 4) recent.pop_back();
  return recent.front().second;
}

template <class T, class Wide>
Wide combine(Reduction reduction, Wide a, Wide b) {
  switch (reduction) {
    case Reduction::prod:
      return Wide(a * b);
    case Reduction::max:
      return a > b ? a : b;
    case Reduction::min:
      return a < b ? a : b;
    case Reduction::sum:
    case Reduction::avg:
    case Reduction::premul_sum:
      break;
  }
  return Wide(a + b);
}

// One element. `Wide` is what the type accumulates in: integers wrap, so they use an unsigned wide type and T's order.
template <class T, class Wide>
T reduce_element(const Collective& call, const Inputs& inputs, std::size_t index) {
  Wide total{};
  for (std::size_t rank = 0; rank < inputs.send.size(); ++rank) {
    T element;
    std::memcpy(static_cast<void*>(&element), inputs.send[rank].data() + index * sizeof(T), sizeof(T));
    Wide value = Wide(element);
    if (call.reduction == Reduction::premul_sum) {
      T scalar;
      std::memcpy(static_cast<void*>(&scalar), &inputs.scalars[rank], sizeof(T));
      value = Wide(value * Wide(scalar));
    }
    total = rank == 0 ? value : combine<T, Wide>(call.reduction, total, value);
    if constexpr (std::is_integral_v<T>) total = Wide(T(total));
  }
  if (call.reduction == Reduction::avg) {
    if constexpr (std::is_integral_v<T>) {
      total = Wide(T(total) / __int128(inputs.send.size()));
    } else {
      total = total * (Wide(1) / Wide(inputs.send.size()));
    }
  }
  return T(total);
}

inline void reduce_into(unsigned char* to, const Collective& call, const Inputs& inputs, std::size_t index) {
  const auto put = [&](auto value) { std::memcpy(to, static_cast<const void*>(&value), sizeof value); };
  switch (call.type) {
    case ncclInt8:
      return put(reduce_element<std::int8_t, __int128>(call, inputs, index));
    case ncclUint8:
      return put(reduce_element<std::uint8_t, __int128>(call, inputs, index));
    case ncclInt32:
      return put(reduce_element<std::int32_t, __int128>(call, inputs, index));
    case ncclUint32:
      return put(reduce_element<std::uint32_t, __int128>(call, inputs, index));
    case ncclInt64:
      return put(reduce_element<std::int64_t, __int128>(call, inputs, index));
    case ncclUint64:
      return put(reduce_element<std::uint64_t, unsigned __int128>(call, inputs, index));
    case ncclFloat16:
      return put(reduce_element<Half, float>(call, inputs, index));
    case ncclFloat32:
      return put(reduce_element<float, float>(call, inputs, index));
    case ncclFloat64:
      return put(reduce_element<double, double>(call, inputs, index));
    case ncclBfloat16:
      return put(reduce_element<Bfloat16, float>(call, inputs, index));
    case ncclFloat8e4m3:
      return put(reduce_element<F8e4m3, float>(call, inputs, index));
    case ncclFloat8e5m2:
      return put(reduce_element<F8e5m2, float>(call, inputs, index));
    case ncclNumTypes:
      return;
  }
}

// What `rank` must receive; empty if it receives nothing.
inline Bytes expected(const Collective& call, const Inputs& inputs, int rank) {
  if (!receives(call, rank)) return {};
  const std::size_t element = element_size(call.type);
  const std::size_t piece = call.count * element;
  const auto ranks = int(inputs.send.size());
  Bytes result(recv_elements(call, ranks) * element);
  if (reduces(call.kind)) {
    const std::size_t first = call.kind == CollectiveKind::reduce_scatter ? std::size_t(rank) * call.count : 0;
    for (std::size_t i = 0; i < call.count; ++i) reduce_into(result.data() + i * element, call, inputs, first + i);
    return result;
  }
  if (piece == 0) return result;
  const auto copy = [&](int to, int from, std::size_t from_piece) {
    std::memcpy(result.data() + std::size_t(to) * piece, inputs.send[std::size_t(from)].data() + from_piece * piece,
                piece);
  };
  for (int from = 0; from < ranks; ++from) {
    if (receives_per_rank(call.kind)) {
      copy(from, from, call.kind == CollectiveKind::all_to_all ? std::size_t(rank) : 0);
    }
  }
  if (call.kind == CollectiveKind::broadcast) copy(0, call.root, 0);
  if (call.kind == CollectiveKind::scatter) copy(0, call.root, std::size_t(rank));
  return result;
}

}  // namespace busbw::cpu::test

// Encodes 1 and 2 in every element type.
#include "engine/measure/premul.h"

namespace busbw {
namespace {

template <DataType Type>
std::uint64_t encoded(int value) {
  using F = pattern_detail::Format<Type>;
  if constexpr (F::is_integer) {
    return static_cast<std::uint64_t>(value);
  } else {
    return F::from(static_cast<typename F::Wide>(value));
  }
}

}  // namespace

std::uint64_t premul_scalar_bits(DataType type, int rank) {
  const int value = mulsum_scalar(rank);
  switch (type) {
    case DataType::int8:
      return encoded<DataType::int8>(value);
    case DataType::uint8:
      return encoded<DataType::uint8>(value);
    case DataType::int32:
      return encoded<DataType::int32>(value);
    case DataType::uint32:
      return encoded<DataType::uint32>(value);
    case DataType::int64:
      return encoded<DataType::int64>(value);
    case DataType::uint64:
      return encoded<DataType::uint64>(value);
    case DataType::float16:
      return encoded<DataType::float16>(value);
    case DataType::float32:
      return encoded<DataType::float32>(value);
    case DataType::float64:
      return encoded<DataType::float64>(value);
    case DataType::bfloat16:
      return encoded<DataType::bfloat16>(value);
    case DataType::f8e4m3:
      return encoded<DataType::f8e4m3>(value);
    case DataType::f8e5m2:
      return encoded<DataType::f8e5m2>(value);
  }
  return 0;
}

}  // namespace busbw

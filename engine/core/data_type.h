// Element types and reduction operations, under the names nccl-tests gives them and with NCCL's own enumerators.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "busbw/nccl_abi.h"

namespace busbw {

enum class DataType : int {
  int8 = ncclInt8,
  uint8 = ncclUint8,
  int32 = ncclInt32,
  uint32 = ncclUint32,
  int64 = ncclInt64,
  uint64 = ncclUint64,
  float16 = ncclFloat16,
  float32 = ncclFloat32,
  float64 = ncclFloat64,
  bfloat16 = ncclBfloat16,
  f8e4m3 = ncclFloat8e4m3,
  f8e5m2 = ncclFloat8e5m2,
};

enum class RedOp : int {
  sum = ncclSum,
  prod = ncclProd,
  max = ncclMax,
  min = ncclMin,
  avg = ncclAvg,
  mulsum,  // ncclRedOpCreatePreMulSum with scalar 1 on even ranks and 2 on odd ones
};

inline constexpr std::array<DataType, 12> all_data_types = {
    DataType::int8,    DataType::uint8,   DataType::int32,   DataType::uint32,   DataType::int64,  DataType::uint64,
    DataType::float16, DataType::float32, DataType::float64, DataType::bfloat16, DataType::f8e4m3, DataType::f8e5m2,
};
inline constexpr std::array<RedOp, 6> all_red_ops = {RedOp::sum, RedOp::prod, RedOp::max,
                                                     RedOp::min, RedOp::avg,  RedOp::mulsum};

std::string_view name(DataType type);
std::string_view name(RedOp op);
std::optional<DataType> data_type_named(std::string_view name);
std::optional<RedOp> red_op_named(std::string_view name);
std::size_t element_size(DataType type);
bool is_floating(DataType type);

}  // namespace busbw

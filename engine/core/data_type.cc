// Names and sizes of element types and reduction operations.
#include "engine/core/data_type.h"

namespace busbw {

std::string_view name(DataType type) {
  switch (type) {
    case DataType::int8:
      return "int8";
    case DataType::uint8:
      return "uint8";
    case DataType::int32:
      return "int32";
    case DataType::uint32:
      return "uint32";
    case DataType::int64:
      return "int64";
    case DataType::uint64:
      return "uint64";
    case DataType::float16:
      return "half";
    case DataType::float32:
      return "float";
    case DataType::float64:
      return "double";
    case DataType::bfloat16:
      return "bfloat16";
    case DataType::f8e4m3:
      return "f8e4m3";
    case DataType::f8e5m2:
      return "f8e5m2";
  }
  return "?";
}

std::string_view name(RedOp op) {
  switch (op) {
    case RedOp::sum:
      return "sum";
    case RedOp::prod:
      return "prod";
    case RedOp::max:
      return "max";
    case RedOp::min:
      return "min";
    case RedOp::avg:
      return "avg";
    case RedOp::mulsum:
      return "mulsum";
  }
  return "?";
}

std::optional<DataType> data_type_named(std::string_view wanted) {
  for (const DataType type : all_data_types)
    if (name(type) == wanted) return type;
  return std::nullopt;
}

std::optional<RedOp> red_op_named(std::string_view wanted) {
  for (const RedOp op : all_red_ops)
    if (name(op) == wanted) return op;
  return std::nullopt;
}

std::size_t element_size(DataType type) {
  switch (type) {
    case DataType::int8:
    case DataType::uint8:
    case DataType::f8e4m3:
    case DataType::f8e5m2:
      return 1;
    case DataType::float16:
    case DataType::bfloat16:
      return 2;
    case DataType::int32:
    case DataType::uint32:
    case DataType::float32:
      return 4;
    case DataType::int64:
    case DataType::uint64:
    case DataType::float64:
      return 8;
  }
  return 0;
}

bool is_floating(DataType type) {
  switch (type) {
    case DataType::float16:
    case DataType::float32:
    case DataType::float64:
    case DataType::bfloat16:
    case DataType::f8e4m3:
    case DataType::f8e5m2:
      return true;
    case DataType::int8:
    case DataType::uint8:
    case DataType::int32:
    case DataType::uint32:
    case DataType::int64:
    case DataType::uint64:
      return false;
  }
  return false;
}

}  // namespace busbw

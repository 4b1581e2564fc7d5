// Names and sizes of element types and reductions, and the operands of a reduction as the kernels take them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "busbw/nccl_abi.h"

namespace busbw::cpu {

// What a reduction does with its elements. The first five keep NCCL's numbers.
enum class Reduction : std::uint8_t { sum = 0, prod = 1, max = 2, min = 3, avg = 4, premul_sum = 5 };
inline constexpr int reduction_count = 6;

constexpr std::size_t element_size(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
    case ncclFloat8e4m3:
    case ncclFloat8e5m2:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    case ncclNumTypes:
      break;
  }
  return 0;
}

constexpr const char* type_name(ncclDataType_t type) {
  constexpr const char* names[] = {"int8", "uint8", "int32",  "uint32",   "int64",  "uint64",
                                   "half", "float", "double", "bfloat16", "f8e4m3", "f8e5m2"};
  return type >= 0 && type < ncclNumTypes ? names[type] : "unknown type";
}

constexpr const char* reduction_name(Reduction reduction) {
  constexpr const char* names[] = {"sum", "prod", "max", "min", "avg", "premulsum"};
  return int(reduction) < reduction_count ? names[int(reduction)] : "unknown reduction";
}

}  // namespace busbw::cpu

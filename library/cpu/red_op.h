// Reduction operators that a caller made with ncclRedOpCreatePreMulSum.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "library/common/failure.h"
#include "library/cpu/element.h"

namespace busbw::cpu {

struct PremulSum {
  bool in_use = false;
  ncclDataType_t type = ncclInt8;
  std::uint64_t scalar = 0;
  // "Device" residence: the scalar is read when the operator is used, not when it is made.
  const void* address = nullptr;
};

class RedOps {
 public:
  ncclRedOp_t create(const void* scalar, ncclDataType_t type, ncclScalarResidence_t residence) {
    PremulSum op{.in_use = true, .type = type};
    if (residence == ncclScalarHostImmediate) {
      std::memcpy(&op.scalar, scalar, element_size(type));
    } else {
      op.address = scalar;
    }
    std::size_t index = 0;
    while (index < made_.size() && made_[index].in_use) ++index;
    if (index == made_.size()) made_.emplace_back();
    made_[index] = op;
    return ncclRedOp_t(ncclNumOps + int(index));
  }

  void destroy(ncclRedOp_t op) { find(op).in_use = false; }

  std::uint64_t scalar(ncclRedOp_t handle, ncclDataType_t type) {
    const PremulSum& op = find(handle);
    if (op.type != type) {
      throw Failure(ncclInvalidArgument, text("The reduction operator was made for %s, and is used with %s.",
                                              type_name(op.type), type_name(type)));
    }
    std::uint64_t scalar = op.scalar;
    if (op.address) std::memcpy(&scalar, op.address, element_size(type));
    return scalar;
  }

 private:
  PremulSum& find(ncclRedOp_t op) {
    const auto index = std::size_t(int(op) - ncclNumOps);
    if (int(op) < ncclNumOps || index >= made_.size() || !made_[index].in_use) {
      throw Failure(ncclInvalidArgument, text("%d is no reduction operator of this communicator.", int(op)));
    }
    return made_[index];
  }

  std::vector<PremulSum> made_;
};

}  // namespace busbw::cpu

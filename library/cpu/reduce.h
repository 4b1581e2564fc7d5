// Element-wise reduction of one vector per rank into one or more copies of the result: the arithmetic of every
// collective.
//
// The result does not depend on the instruction set, the block size or the placement of ranks: operands are combined in
// the order given, 8- and 16-bit floats in fp32 with one rounding at the end, all others in their own type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "library/cpu/element.h"

namespace busbw::cpu {

struct ReduceOperands {
  // One vector per rank, in rank order. Need not be aligned.
  const void* const* sources = nullptr;
  // premul_sum only: one scalar per source, in the element type, as the low bytes of a word.
  const std::uint64_t* scalars = nullptr;
  int source_count = 0;
  // Every destination receives the whole result; one may be identical with a source, other overlaps are not allowed.
  void* const* destinations = nullptr;
  int destination_count = 0;
  std::size_t count = 0;
  // Write around the caches: pays when the results would push the operands out of them.
  bool streaming = false;
};

using ReduceKernel = void (*)(const ReduceOperands&);

enum class InstructionSet { baseline, avx2, avx512 };

// The widest that this machine runs; BUSBW_CPU_ISA=baseline|avx2|avx512 lowers it.
InstructionSet instruction_set();

ReduceKernel reduce_kernel(ncclDataType_t type, Reduction reduction, InstructionSet set);
// For this machine, from a table.
ReduceKernel reduce_kernel(ncclDataType_t type, Reduction reduction);

}  // namespace busbw::cpu

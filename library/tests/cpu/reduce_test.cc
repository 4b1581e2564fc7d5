// The reduction kernels of every instruction set give the same bits as plain arithmetic in rank order.
#include "library/cpu/reduce.h"

#include <gtest/gtest.h>

#include "library/tests/cpu/reference.h"

namespace busbw::cpu::test {
namespace {

std::vector<InstructionSet> sets_here() {
  std::vector<InstructionSet> sets{InstructionSet::baseline};
  if (instruction_set() >= InstructionSet::avx2) sets.push_back(InstructionSet::avx2);
  if (instruction_set() >= InstructionSet::avx512) sets.push_back(InstructionSet::avx512);
  return sets;
}

Bytes run_kernel(InstructionSet set, const Collective& call, const Inputs& inputs, bool streaming, std::size_t copies) {
  std::vector<const void*> sources;
  for (const Bytes& source : inputs.send) sources.push_back(source.data());
  const std::size_t bytes = call.count * element_size(call.type);
  std::vector<Bytes> results(copies, Bytes(bytes));
  std::vector<void*> destinations;
  for (Bytes& result : results) destinations.push_back(result.data());
  reduce_kernel(call.type, call.reduction, set)({.sources = sources.data(),
                                                 .scalars = inputs.scalars.data(),
                                                 .source_count = int(sources.size()),
                                                 .destinations = destinations.data(),
                                                 .destination_count = int(copies),
                                                 .count = call.count,
                                                 .streaming = streaming});
  for (const Bytes& result : results) EXPECT_EQ(result, results.front());
  return results.front();
}

TEST(ReduceKernels, AgreeBitForBitWithTheReference) {
  for (const InstructionSet set : sets_here()) {
    for (int type = 0; type < ncclNumTypes; ++type) {
      for (int reduction = 0; reduction < reduction_count; ++reduction) {
        for (const int ranks : {1, 2, 3, 8}) {
          for (const std::size_t count : {1, 7, 8, 513, 1031}) {
            const Collective call{.type = ncclDataType_t(type), .reduction = Reduction(reduction), .count = count};
            const Inputs inputs = random_inputs(call, ranks, std::uint32_t(count));
            const Bytes wanted = expected(call, inputs, 0);
            ASSERT_EQ(run_kernel(set, call, inputs, false, 1), wanted)
                << spelled(describe(call), count) << " set " << int(set) << " ranks " << ranks;
            ASSERT_EQ(run_kernel(set, call, inputs, true, 3), wanted);
          }
        }
      }
    }
  }
}

// Every pair of patterns that can matter in 8 bits, NaNs and infinities included: all instruction sets must agree.
TEST(ReduceKernels, TreatSpecialValuesAlikeInEveryInstructionSet) {
  for (const ncclDataType_t type : {ncclFloat16, ncclBfloat16, ncclFloat8e4m3, ncclFloat8e5m2, ncclFloat32}) {
    const std::size_t element = element_size(type);
    Inputs inputs{.send = {Bytes(65536 * element), Bytes(65536 * element)}, .scalars = {1, 1}};
    for (std::size_t i = 0; i < 65536; ++i) {
      // High bytes run through all values: signs, exponents, infinities, NaNs.
      inputs.send[0][i * element + element - 1] = static_cast<unsigned char>(i >> 8);
      inputs.send[1][i * element + element - 1] = static_cast<unsigned char>(i);
      if (element > 1) inputs.send[0][i * element + element - 2] = static_cast<unsigned char>(i * 37);
      if (element > 1) inputs.send[1][i * element + element - 2] = static_cast<unsigned char>(i * 101);
    }
    // A float's NaN keeps the payload of one operand, and which one is the compiler's choice; so fp32 compares only max
    // and min.
    for (const Reduction reduction :
         {Reduction::max, Reduction::min, Reduction::sum, Reduction::prod, Reduction::avg}) {
      if (type == ncclFloat32 && reduction != Reduction::max && reduction != Reduction::min) continue;
      const Collective call{.type = type, .reduction = reduction, .count = 65536};
      const Bytes baseline = run_kernel(InstructionSet::baseline, call, inputs, false, 1);
      for (const InstructionSet set : sets_here()) {
        EXPECT_EQ(run_kernel(set, call, inputs, false, 1), baseline)
            << type_name(type) << " " << reduction_name(reduction) << " set " << int(set);
      }
    }
  }
}

TEST(ReduceKernels, LetANumberWinOverANaNInMaxAndMin) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float a[] = {nan, 1, nan, -3};
  const float b[] = {2, nan, nan, 4};
  float result[4];
  const void* sources[] = {a, b};
  void* destination = result;
  reduce_kernel(ncclFloat32, Reduction::max)(
      {.sources = sources, .source_count = 2, .destinations = &destination, .destination_count = 1, .count = 4});
  EXPECT_EQ(result[0], 2);
  EXPECT_EQ(result[1], 1);
  EXPECT_TRUE(result[2] != result[2]);
  EXPECT_EQ(result[3], 4);
}

}  // namespace
}  // namespace busbw::cpu::test

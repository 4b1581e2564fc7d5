// Chooses the reduction kernels for the machine that runs this.
#include "library/cpu/reduce.h"

#include <algorithm>
#include <array>
#include <cstdlib>

namespace busbw::cpu {

namespace isa_baseline {
ReduceKernel kernel(ncclDataType_t type, Reduction reduction);
}
#if defined(__x86_64__)
namespace isa_avx2 {
ReduceKernel kernel(ncclDataType_t type, Reduction reduction);
}
namespace isa_avx512 {
ReduceKernel kernel(ncclDataType_t type, Reduction reduction);
}
#endif

namespace {

InstructionSet widest_here() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return avx512 ? InstructionSet::avx512 : avx2 ? InstructionSet::avx2 : InstructionSet::baseline;
#else
  return InstructionSet::baseline;
#endif
}

InstructionSet allowed() {
  const char* wish = std::getenv("BUSBW_CPU_ISA");
  const std::string_view name = wish ? wish : "";
  if (name == "baseline") return InstructionSet::baseline;
  if (name == "avx2") return InstructionSet::avx2;
  return InstructionSet::avx512;
}

using KernelTable = std::array<std::array<ReduceKernel, reduction_count>, ncclNumTypes>;

KernelTable make_table() {
  KernelTable table;
  for (int type = 0; type < ncclNumTypes; ++type) {
    for (int reduction = 0; reduction < reduction_count; ++reduction) {
      table[std::size_t(type)][std::size_t(reduction)] =
          reduce_kernel(ncclDataType_t(type), Reduction(reduction), instruction_set());
    }
  }
  return table;
}

// Filled when the library is loaded, so that no call has to ask whether it is.
const KernelTable kernel_table = make_table();

}  // namespace

ReduceKernel reduce_kernel(ncclDataType_t type, Reduction reduction) {
  return kernel_table[std::size_t(type)][std::size_t(reduction)];
}

InstructionSet instruction_set() {
  static const InstructionSet chosen = std::min(widest_here(), allowed());
  return chosen;
}

ReduceKernel reduce_kernel(ncclDataType_t type, Reduction reduction, InstructionSet set) {
  switch (set) {
#if defined(__x86_64__)
    case InstructionSet::avx512:
      return isa_avx512::kernel(type, reduction);
    case InstructionSet::avx2:
      return isa_avx2::kernel(type, reduction);
#else
    case InstructionSet::avx512:
    case InstructionSet::avx2:
#endif
    case InstructionSet::baseline:
      return isa_baseline::kernel(type, reduction);
  }
  return nullptr;
}

}  // namespace busbw::cpu

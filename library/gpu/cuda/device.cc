// Which devices are in use, and the number of a kernel.
#include "library/gpu/cuda/device.h"

#include <atomic>
#include <iterator>

namespace busbw::gpu {
namespace {

std::atomic<Devices*> replacement{nullptr};

}  // namespace

Devices& devices() {
  Devices* instead = replacement.load();
  return instead ? *instead : cuda_devices();
}

void use_devices(Devices* instead) { replacement.store(instead); }

int kind_of(Collective collective, Algorithm algorithm, Protocol protocol) {
  for (int kind = 0; kind < int(std::size(kernel_kinds)); ++kind) {
    const KernelKind& known = kernel_kinds[kind];
    if (known.collective == collective && known.algorithm == algorithm && known.protocol == protocol) return kind;
  }
  return -1;
}

}  // namespace busbw::gpu

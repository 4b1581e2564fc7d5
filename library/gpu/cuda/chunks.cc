// Memory of cuMemCreate in several allocations: what the program has of it, and that of peers in one piece.
#include <algorithm>

#include "library/common/failure.h"
#include "library/gpu/cuda/cuda_device.h"
#include "library/gpu/cuda/current.h"

namespace busbw::gpu {

Chunks CudaDevice::retain_chunks(const void* memory, std::size_t bytes, std::size_t enough) {
  check_range_functions();
  const Aside aside(*this);
  CudaAddress base = 0;
  std::size_t each = 0;
  Chunks chunks;
  if (driver_.memory_get_range(&base, &each, address(memory)) != cuda::success || each == 0) return chunks;
  // Of the allocation at this address if it begins there and has the size of the others; retained then.
  const auto retain = [&](CudaAddress at) -> std::uint64_t {
    CudaAddress begin = 0;
    std::size_t size = 0;
    cuda::AllocationHandle allocated = 0;
    const bool fits = driver_.memory_get_range(&begin, &size, at) == cuda::success && begin == at && size == each;
    if (!fits || driver_.allocation_retain(&allocated, pointer(at)) != cuda::success) return 0;
    return allocated;
  };
  CudaAddress end = base;
  const CudaAddress wanted = address(memory) + bytes;
  while (end < wanted || chunks.allocations.size() < enough) {
    const std::uint64_t next = retain(end);
    if (next == 0) break;
    chunks.allocations.push_back(next);
    end += each;
  }
  std::vector<std::uint64_t> before;
  while (end >= wanted && before.size() + chunks.allocations.size() < enough && base >= each) {
    const std::uint64_t next = retain(base - each);
    if (next == 0) break;
    before.push_back(next);
    base -= each;
  }
  chunks.allocations.insert(chunks.allocations.begin(), before.rbegin(), before.rend());
  chunks.begin = static_cast<const unsigned char*>(pointer(base));
  chunks.each = each;
  if (end >= wanted) return chunks;
  release(chunks);
  return {};
}

// A handle that is retained is not given to other memory.
bool CudaDevice::are_there(const Chunks& chunks, const void* memory, std::size_t bytes) {
  const Aside aside(*this);
  const CudaAddress base = address(chunks.begin);
  const std::uint64_t first = (address(memory) - base) / chunks.each;
  const std::uint64_t last = (address(memory) - base + std::max<std::size_t>(bytes, 1) - 1) / chunks.each;
  for (std::uint64_t i = first; i <= last; ++i) {
    cuda::AllocationHandle allocated = 0;
    if (driver_.allocation_retain(&allocated, pointer(base + i * chunks.each)) != cuda::success) return false;
    driver_.allocation_release(allocated);
    if (allocated != chunks.allocations[i]) return false;
  }
  return true;
}

std::vector<Descriptor> CudaDevice::share(const Chunks& chunks) {
  const Aside aside(*this);
  std::vector<Descriptor> descriptors;
  for (const std::uint64_t allocated : chunks.allocations) {
    int file = -1;
    check(driver_.allocation_export(&file, allocated, cuda::posix_file_descriptor, 0), "cuMemExportToShareableHandle");
    descriptors.emplace_back(file);
  }
  return descriptors;
}

void CudaDevice::release(const Chunks& chunks) noexcept {
  const Aside aside(*this);
  for (const std::uint64_t allocated : chunks.allocations) driver_.allocation_release(allocated);
}

void* CudaDevice::open_chunks(std::uint64_t each, const std::vector<Descriptor>& descriptors) {
  check_range_functions();
  const Aside aside(*this);
  const std::size_t all = each * descriptors.size();
  CudaAddress opened = 0;
  check(driver_.address_reserve(&opened, all, 0, 0, 0), "cuMemAddressReserve");
  std::size_t mapped = 0;
  CudaResult result = cuda::success;
  for (const Descriptor& descriptor : descriptors) {
    cuda::AllocationHandle allocated = 0;
    result = driver_.allocation_import(&allocated, reinterpret_cast<void*>(std::intptr_t(descriptor.get())),
                                       cuda::posix_file_descriptor);
    if (result != cuda::success) break;
    result = driver_.memory_map(opened + mapped, each, 0, allocated, 0);
    // The mapping keeps the memory.
    driver_.allocation_release(allocated);
    if (result != cuda::success) break;
    mapped += each;
  }
  if (result == cuda::success) {
    const cuda::AccessDescription access{.type = cuda::location_device, .id = device_, .flags = cuda::access_both};
    result = driver_.memory_set_access(opened, all, &access, 1);
  }
  if (result != cuda::success) {
    if (mapped > 0) driver_.memory_unmap(opened, mapped);
    driver_.address_free(opened, all);
  }
  check(result, "mapping a peer's memory in several allocations (cuMemMap, cuMemSetAccess)");
  return pointer(opened);
}

}  // namespace busbw::gpu

// Memory of ncclMemAlloc: from memory files that other processes of the same user can map, for the direct algorithm.
#pragma once

#include <cstddef>

namespace busbw::cpu {

void* heap_allocate(std::size_t bytes);
void heap_free(void* address);

}  // namespace busbw::cpu

// Memory of ncclMemAlloc: of this process alone.
#pragma once

#include <cstddef>

namespace busbw::cpu {

void* heap_allocate(std::size_t bytes);
void heap_free(void* address);

}  // namespace busbw::cpu

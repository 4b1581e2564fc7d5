// Embeds the file that the CUDA compiler wrote, by the assembler, so that nothing has to be generated or linked.
#include "engine/platform/cuda_image.h"

#ifdef BUSBW_IMAGE_pattern
asm(R"(
  .section .rodata
  .balign 16
  .hidden busbw_image_pattern
  .global busbw_image_pattern
busbw_image_pattern:
  .incbin ")" BUSBW_IMAGE_pattern R"("
  .byte 0
  .previous
)");
extern "C" const unsigned char busbw_image_pattern[] __attribute__((visibility("hidden")));
#else
#define BUSBW_KERNEL_CUDA_VERSION 0
#endif

namespace busbw {

const void* kernel_image() {
#ifdef BUSBW_IMAGE_pattern
  return busbw_image_pattern;
#else
  return nullptr;
#endif
}

int kernel_image_cuda_version() { return BUSBW_KERNEL_CUDA_VERSION; }

}  // namespace busbw

// Embeds the file that the CUDA compiler wrote, by the assembler, so that nothing has to be generated or linked.
#include "engine/platform/cuda_image.h"

#ifdef BUSBW_KERNEL_IMAGE
asm(R"(
  .section .rodata
  .balign 16
  .hidden busbw_kernel_image
  .global busbw_kernel_image
busbw_kernel_image:
  .incbin ")" BUSBW_KERNEL_IMAGE R"("
  .byte 0
  .previous
)");
extern "C" const unsigned char busbw_kernel_image[] __attribute__((visibility("hidden")));
#else
#define BUSBW_KERNEL_CUDA_VERSION 0
#endif

namespace busbw {

const void* kernel_image() {
#ifdef BUSBW_KERNEL_IMAGE
  return busbw_kernel_image;
#else
  return nullptr;
#endif
}

int kernel_image_cuda_version() { return BUSBW_KERNEL_CUDA_VERSION; }

}  // namespace busbw

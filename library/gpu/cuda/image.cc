// Embeds the files that the CUDA compiler wrote, by the assembler, so that nothing has to be generated or linked.
#include "library/gpu/cuda/image.h"

#ifdef BUSBW_IMAGE_ll
#define BUSBW_EMBED(NAME, FILE)   \
  asm(".section .rodata\n"        \
      ".balign 16\n"              \
      ".hidden busbw_image_" NAME \
      "\n"                        \
      ".global busbw_image_" NAME \
      "\n"                        \
      "busbw_image_" NAME         \
      ":\n"                       \
      ".incbin \"" FILE           \
      "\"\n"                      \
      ".byte 0\n"                 \
      ".previous\n")

BUSBW_EMBED("ll", BUSBW_IMAGE_ll);
BUSBW_EMBED("sentinel", BUSBW_IMAGE_sentinel);
BUSBW_EMBED("simple", BUSBW_IMAGE_simple);
BUSBW_EMBED("meet", BUSBW_IMAGE_meet);
BUSBW_EMBED("add", BUSBW_IMAGE_add);
BUSBW_EMBED("slim", BUSBW_IMAGE_slim);
BUSBW_EMBED("norm", BUSBW_IMAGE_norm);

extern "C" {
extern const unsigned char busbw_image_ll[] __attribute__((visibility("hidden")));
extern const unsigned char busbw_image_sentinel[] __attribute__((visibility("hidden")));
extern const unsigned char busbw_image_simple[] __attribute__((visibility("hidden")));
extern const unsigned char busbw_image_meet[] __attribute__((visibility("hidden")));
extern const unsigned char busbw_image_add[] __attribute__((visibility("hidden")));
extern const unsigned char busbw_image_slim[] __attribute__((visibility("hidden")));
extern const unsigned char busbw_image_norm[] __attribute__((visibility("hidden")));
}
#endif

namespace busbw::gpu {

#ifdef BUSBW_IMAGE_ll
namespace {
const void* const images[] = {busbw_image_ll,  busbw_image_sentinel, busbw_image_simple, busbw_image_meet,
                              busbw_image_add, busbw_image_slim,     busbw_image_norm};
}
int gpu_kernel_image_count() { return static_cast<int>(sizeof images / sizeof images[0]); }
const void* gpu_kernel_image(int index) { return images[index]; }
#else
int gpu_kernel_image_count() { return 0; }
const void* gpu_kernel_image(int) { return nullptr; }
#endif

}  // namespace busbw::gpu

// For a program in another language to ask whether it is PyTorch's reducer that called it.
#include "library/gpu/choose/gradients.h"

extern "C" [[gnu::visibility("default")]] int busbw_test_called_for_gradients() {
  return busbw::gpu::called_for_gradients() ? 1 : 0;
}

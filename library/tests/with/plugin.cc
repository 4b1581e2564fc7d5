// A library that is linked to NCCL and finds it by its own RUNPATH, as PyTorch's does.
#include "busbw/nccl_abi.h"

extern "C" {
ncclGetVersion_t ncclGetVersion;
ncclAllReduce_t ncclAllReduce;
// Absent in some NCCLs: a program asks before it calls.
[[gnu::weak]] ncclResult_t ncclCommGrow(void*);
// Newer than busbw.
ncclResult_t ncclFutureAllReduce(void*);

__attribute__((visibility("default"))) void pluginView(void (*say)(ncclGetVersion_t*, const void*, bool)) {
  say(&ncclGetVersion, reinterpret_cast<const void*>(&ncclAllReduce), ncclCommGrow != nullptr);
}

__attribute__((visibility("default"))) ncclResult_t pluginFuture() { return ncclFutureAllReduce(nullptr); }
}

// A program that comes to NCCL in one of the ways that programs do, and says what it found:
// "version 22809, calls go to libbusbw_gpu.so, ncclCommGrow absent".
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "busbw/nccl_abi.h"

namespace {

void say(ncclGetVersion_t* get_version, const void* all_reduce, bool grow) {
  int version = 0;
  if (!get_version || !all_reduce || get_version(&version) != ncclSuccess) {
    std::printf("no NCCL\n");
    return;
  }
  Dl_info where{};
  dladdr(all_reduce, &where);
  const char* file = where.dli_fname ? where.dli_fname : "?";
  const char* slash = std::strrchr(file, '/');
  std::printf("version %d, calls go to %s, ncclCommGrow %s\n", version, slash ? slash + 1 : file,
              grow ? "there" : "absent");
}

int say_of(void* handle) {
  if (!handle) {
    std::printf("not opened: %s\n", dlerror());
    return 1;
  }
  say(reinterpret_cast<ncclGetVersion_t*>(dlsym(handle, "ncclGetVersion")), dlsym(handle, "ncclAllReduce"),
      dlsym(handle, "ncclCommGrow"));
  return 0;
}

}  // namespace

int main(int, char** arguments) {
  const std::string how = arguments[1];
  const char* file = arguments[2];
  if (how == "local") return say_of(dlopen(file, RTLD_NOW | RTLD_LOCAL));
  if (how == "deepbind") return say_of(dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND));
  if (how == "namespace") return say_of(dlmopen(LM_ID_NEWLM, file, RTLD_NOW | RTLD_LOCAL));
  if (how == "if-there") return say_of(dlopen(file, RTLD_NOW | RTLD_NOLOAD));
  if (how == "again") {
    // As closed and opened by a plugin that comes and goes, then by the other name.
    if (void* once = dlopen(file, RTLD_NOW | RTLD_LOCAL)) dlclose(once);
    if (say_of(dlopen(file, RTLD_NOW | RTLD_LOCAL)) != 0) return 1;
    return say_of(dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL));
  }
  // A library that is linked to NCCL, such as PyTorch's, and its own view of NCCL's functions.
  if (how == "plugin" || how == "plugin-deepbind") {
    void* plugin = dlopen(file, RTLD_NOW | RTLD_LOCAL | (how == "plugin" ? 0 : RTLD_DEEPBIND));
    if (!plugin) return say_of(nullptr);
    reinterpret_cast<void (*)(void (*)(ncclGetVersion_t*, const void*, bool))>(dlsym(plugin, "pluginView"))(say);
    return reinterpret_cast<ncclResult_t (*)()>(dlsym(plugin, "pluginFuture"))();
  }
  std::printf("no way '%s'\n", how.c_str());
  return 2;
}

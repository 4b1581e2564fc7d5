// Opening a library and finding its symbols, with the loader's own words in the error.
#include "engine/platform/shared_object.h"

#include <dlfcn.h>

#include <climits>
#include <cstdlib>

#include "engine/core/error.h"

namespace busbw {

SharedObject::SharedObject(const std::string& path) {
  // Lazy binding: a library may refer to a newer driver's symbols in functions that are never called.
  handle_ = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (handle_ == nullptr) {
    const char* reason = dlerror();
    throw Error(ExitCode::bad_arguments, format("cannot load the library %s: %s; give --library a path to a shared "
                                                "library that exports the NCCL API",
                                                path.c_str(), reason != nullptr ? reason : "no reason given"));
  }
}

void* SharedObject::find(const char* symbol) const { return dlsym(handle_, symbol); }

std::string SharedObject::resolved_path(void* symbol_inside) const {
  Dl_info info{};
  if (dladdr(symbol_inside, &info) == 0 || info.dli_fname == nullptr) return "";
  char absolute[PATH_MAX];
  return realpath(info.dli_fname, absolute) != nullptr ? absolute : info.dli_fname;
}

}  // namespace busbw

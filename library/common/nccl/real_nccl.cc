// Finding the NCCL behind this library without finding ourselves.
#include "library/common/nccl/real_nccl.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "library/common/elf_symbols.h"
#include "library/common/failure.h"

namespace busbw {

constinit thread_local int calls_inside_nccl = 0;

namespace {

// NVIDIA's, and AMD's of the same API.
constexpr const char* sonames[] = {"libnccl.so.2", "librccl.so.1"};
// As in library/with/audit.cc.
constexpr const char* name_under_with = "busbw-real-nccl.so";
// Every NCCL of the 2.x ABI has it.
constexpr const char* probe = "ncclCommInitRank";

std::string file_of(const void* function) {
  Dl_info info{};
  return dladdr(function, &info) != 0 && info.dli_fname ? info.dli_fname : "";
}

// This file's object, or another copy of it: going on there would come back here. Our CPU library is an NCCL like any.
bool is_this_library(const void* function) {
  Dl_info theirs{}, ours{};
  void* object = nullptr;
  if (dladdr1(function, &theirs, &object, RTLD_DL_LINKMAP) == 0 ||
      dladdr(reinterpret_cast<const void*>(&is_this_library), &ours) == 0)
    return false;
  // Of the object itself: its path may lead to another under `busbw with`, and what it depends on may be a copy of us.
  return theirs.dli_fbase == ours.dli_fbase ||
         defines(symbols_of(static_cast<const link_map*>(object)), this_library.mark);
}

struct Search {
  void* handle = nullptr;
  void* found = nullptr;
  std::string tried;

  void note(const std::string& what) { tried += (tried.empty() ? "" : "; ") + what; }

  bool accept(void* candidate, const std::string& name) {
    void* function = candidate ? dlsym(candidate, probe) : nullptr;
    if (!function) {
      const char* why = candidate ? nullptr : dlerror();
      note(candidate ? name + " exports no " + probe : why ? std::string(why) : name + " cannot be opened");
      return false;
    }
    if (is_this_library(function)) {
      note(name + " is this library itself");
      return false;
    }
    handle = candidate;
    found = function;
    return true;
  }
};

// Handles are kept for good: NCCL has threads, and communicators outlive any call.
Search search_named(const char* setting, const char* file) {
  Search result;
  result.accept(dlopen(file, RTLD_NOW | RTLD_LOCAL), std::string(setting) + "=" + file);
  return result;
}

const char* set(const char* variable) {
  const char* value = variable ? std::getenv(variable) : nullptr;
  return value && *value ? value : nullptr;
}

Search search() {
  Search result;
  if (const char* file = set(this_library.over)) return search_named(this_library.over, file);
  // Under `busbw with`: the one in whose place we were opened, or that BUSBW_REAL_NCCL names. Elsewhere nothing has
  // this name.
  if (void* behind = dlopen(name_under_with, RTLD_LAZY | RTLD_NOLOAD)) {
    if (result.accept(behind, "the NCCL that busbw with put behind us")) return result;
  }
  if (const char* file = set("BUSBW_REAL_NCCL")) return search_named("BUSBW_REAL_NCCL", file);
  // Preloaded: the program's own NCCL comes after us.
  if (void* function = dlsym(RTLD_NEXT, probe); function && !is_this_library(function)) {
    result.handle = RTLD_NEXT;
    result.found = function;
    return result;
  }
  // A Python module's NCCL is in no scope that RTLD_NEXT sees.
  for (const char* soname : sonames) {
    if (void* loaded = dlopen(soname, RTLD_LAZY | RTLD_NOLOAD)) {
      if (result.accept(loaded, std::string("the ") + soname + " of this process")) return result;
    }
  }
  for (const char* soname : sonames) {
    if (result.accept(dlopen(soname, RTLD_NOW | RTLD_LOCAL), soname)) break;
  }
  return result;
}

std::unique_ptr<RealNccl> bind(const Search& place) {
  auto real = std::make_unique<RealNccl>();
  real->handle = place.handle;
  real->path = file_of(place.found);
  // A library that stands for NCCL without names for profilers has the plain ones behind them.
#define BUSBW_BIND(member, function)                                                            \
  real->member = reinterpret_cast<function##_t*>(dlsym(place.handle, #function));               \
  real->profiling.member = reinterpret_cast<function##_t*>(dlsym(place.handle, "p" #function)); \
  if (!real->profiling.member) real->profiling.member = real->member;
  BUSBW_REAL_FUNCTIONS(BUSBW_BIND)
#undef BUSBW_BIND
  if (!real->get_version || !real->get_error_string || !real->destroy || !real->group_start || !real->group_end) {
    throw Failure(
        ncclSystemError,
        text("%s is no NCCL: it lacks ncclGetVersion, ncclGetErrorString, ncclCommDestroy or ncclGroupStart. Give "
             "the file of an NCCL in BUSBW_REAL_NCCL.",
             real->path.c_str()));
  }
  call_nccl(real->get_version, &real->version);
  return real;
}

const RealNccl* find() {
  const Search place = search();
  if (!place.handle) {
    throw Failure(ncclSystemError, text("%s found no NCCL to work with (%s). Give its file in BUSBW_REAL_NCCL, or its "
                                        "folder in LD_LIBRARY_PATH.",
                                        this_library.name, place.tried.c_str()));
  }
  return bind(place).release();
}

}  // namespace

constinit std::atomic<const RealNccl*> known_nccl{nullptr};

const RealNccl& found_nccl() {
  static std::mutex guard;
  const std::lock_guard lock(guard);
  if (!known_nccl.load(std::memory_order_acquire)) known_nccl.store(find(), std::memory_order_release);
  return *known_nccl.load(std::memory_order_acquire);
}

std::string version_text(int code) {
  // NCCL codes 2.8 and older in thousands, newer ones in tens of thousands.
  if (code < 10000) return text("%d.%d.%d", code / 1000, code / 100 % 10, code % 100);
  return text("%d.%d.%d", code / 10000, code / 100 % 100, code % 100);
}

}  // namespace busbw

// A program linked to NCCL as any user of it is. Calls every function once, through the linker, or through dlsym on the
// library given as argument, and ends with 1 if an argument or a result was lost on the way. Says who is in front of
// NCCL.
#include <dlfcn.h>

#include <cstdio>
#include <string>

#include "library/tests/gpu/nccl_calls.h"

using namespace busbw::gpu::test;  // NOLINT: a test's program

#define DECLARE_GENERIC(name)            \
  extern "C" [[gnu::weak]] Generic name; \
  extern "C" [[gnu::weak]] Generic p##name;

namespace linked {
BUSBW_FORWARDED_FUNCTIONS(DECLARE_GENERIC)
}
namespace typed {
extern "C" {
#define DECLARE(name) [[gnu::weak]] name##_t name;
#define DECLARE_BOTH(name) \
  DECLARE(name)            \
  [[gnu::weak]] name##_t p##name;
COMMUNICATOR_FUNCTIONS(DECLARE)
PLAIN_FUNCTIONS(DECLARE_BOTH)
int fakeNcclProfilingCalls();
}
}  // namespace typed

namespace {

void* library = nullptr;
int lost = 0;

template <class Function>
Function* find(const char* name, Function* linked_one) {
  return library ? reinterpret_cast<Function*>(dlsym(library, name)) : linked_one;
}

void note(const char* name, bool right) {
  if (right) return;
  std::printf("lost: %s\n", name);
  ++lost;
}

bool contains(const char* text, const char* part) { return std::string(text).find(part) != std::string::npos; }

void check_generic(const char* name, Generic* function) {
  const bool typed_in_fake = contains(name, "ncclGetVersion") || contains(name, "ncclCommGrow");
  if (typed_in_fake) return;
  note(name, function && function(1, 2, 3, 4, 5, 6, 7, 8.5, 9, 10, 11.5) == generic_answer(name));
}

template <class Function>
void check_typed(const char* name, Function* function) {
  note(name, function && call(function) == ncclSuccess);
}

// Comes by the same name at NCCL: a profiler between us and NCCL would see its own call again.
template <class Function>
void check_profiling(const char* name, Function* function) {
  const int before = typed::fakeNcclProfilingCalls();
  check_typed(name, function);
  // A group of ours opens NCCL's own, by the plain name.
  if (!contains(name, "Group")) note(name, typed::fakeNcclProfilingCalls() == before + 1);
}

}  // namespace

int main(int count, char** arguments) {
  // One call alone, for those who stand between.
  if (count > 1 && std::string(arguments[1]) == "all-reduce") {
    check_typed("ncclAllReduce", &typed::ncclAllReduce);
    std::printf("by its name for profilers: %d\n", typed::fakeNcclProfilingCalls());
    return lost == 0 ? 0 : 1;
  }
  if (count > 1 && !(library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL))) {
    std::printf("%s\n", dlerror());
    return 2;
  }
#define CHECK_GENERIC(name)                         \
  check_generic(#name, find(#name, &linked::name)); \
  check_generic("p" #name, find("p" #name, &linked::p##name));
  // Twice: the first call looks the function up, the second finds it.
  BUSBW_FORWARDED_FUNCTIONS(CHECK_GENERIC)
  BUSBW_FORWARDED_FUNCTIONS(CHECK_GENERIC)
#define CHECK_TYPED(name) check_typed(#name, find(#name, &typed::name));
  COMMUNICATOR_FUNCTIONS(CHECK_TYPED)
  PLAIN_FUNCTIONS(CHECK_TYPED)
  note("a plain name came by its name for profilers", typed::fakeNcclProfilingCalls() == 0);
#define CHECK_PROFILING(name) check_profiling("p" #name, find("p" #name, &typed::p##name));
  PLAIN_FUNCTIONS(CHECK_PROFILING)
  int version = 0;
  auto* get_version = reinterpret_cast<ncclGetVersion_t*>(dlsym(library ? library : RTLD_DEFAULT, "ncclGetVersion"));
  get_version(&version);
  // The fake NCCL lacks it, and a library in front must not seem to have it. One that is opened has all names.
  if (!library) note("ncclCommGrow is there", dlsym(RTLD_DEFAULT, "ncclCommGrow") == nullptr);
  // Nor may RCCL's names be there.
  if (!library) note("ncclAllToAll is there", dlsym(RTLD_DEFAULT, "ncclAllToAll") == nullptr);
  if (!library) note("mscclRunAlgo is there", dlsym(RTLD_DEFAULT, "mscclRunAlgo") == nullptr);
  std::printf("version %d, busbw in front: %s\n", version,
              dlsym(library ? library : RTLD_DEFAULT, "busbwExplainCall") ? "yes" : "no");
  return lost == 0 ? 0 : 1;
}

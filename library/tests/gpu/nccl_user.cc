// A program linked to NCCL as any user of it is. Calls every function once, through the linker, or through dlsym on the
// library given as argument, and ends with 1 if an argument or a result was lost on the way. Says who is in front of
// NCCL.
#include <dlfcn.h>

#include <cstdio>
#include <string>

#include "library/tests/gpu/nccl_calls.h"

using namespace busbw::gpu::test;  // NOLINT: a test's program

#define DECLARE_GENERIC(name) extern "C" [[gnu::weak]] Generic name;

namespace linked {
BUSBW_FORWARDED_FUNCTIONS(DECLARE_GENERIC)
}
namespace typed {
extern "C" {
// clang-format finds no rest in this list.
// clang-format off
#define TYPED_FUNCTIONS(X) \
  X(ncclCommInitRank) \
  X(ncclCommInitRankConfig) \
  X(ncclCommInitRankScalable) \
  X(ncclCommInitAll) \
  X(ncclCommSplit) \
  X(ncclCommShrink) \
  X(ncclCommRevoke) \
  X(ncclCommFinalize) \
  X(ncclCommDestroy) \
  X(ncclCommAbort) \
  X(ncclCommGetAsyncError) \
  X(ncclGroupStart) \
  X(ncclGroupEnd) \
  X(ncclAllReduce) \
  X(ncclAllGather) \
  X(ncclReduceScatter) \
  X(ncclBroadcast) \
  X(ncclBcast) \
  X(ncclAlltoAll) \
  X(ncclReduce) \
  X(ncclGather) \
  X(ncclScatter) \
  X(ncclSend) \
  X(ncclRecv)
// clang-format on
#define DECLARE(name) [[gnu::weak]] name##_t name;
TYPED_FUNCTIONS(DECLARE)
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

void check_generic(const char* name, Generic* function) {
  const bool typed_in_fake = std::string(name) == "ncclGetVersion" || std::string(name) == "ncclCommGrow";
  if (typed_in_fake) return;
  note(name, function && function(1, 2, 3, 4, 5, 6, 7, 8.5, 9, 10, 11.5) == generic_answer(name));
}

template <class Function>
void check_typed(const char* name, Function* function) {
  note(name, function && call(function) == ncclSuccess);
}

}  // namespace

int main(int count, char** arguments) {
  if (count > 1 && !(library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL))) {
    std::printf("%s\n", dlerror());
    return 2;
  }
#define CHECK_GENERIC(name) check_generic(#name, find(#name, &linked::name));
  // Twice: the first call looks the function up, the second finds it.
  BUSBW_FORWARDED_FUNCTIONS(CHECK_GENERIC)
  BUSBW_FORWARDED_FUNCTIONS(CHECK_GENERIC)
#define CHECK_TYPED(name) check_typed(#name, find(#name, &typed::name));
  TYPED_FUNCTIONS(CHECK_TYPED)
  int version = 0;
  auto* get_version = reinterpret_cast<ncclGetVersion_t*>(dlsym(library ? library : RTLD_DEFAULT, "ncclGetVersion"));
  get_version(&version);
  std::printf("version %d, busbw in front: %s\n", version,
              dlsym(library ? library : RTLD_DEFAULT, "busbwExplainCall") ? "yes" : "no");
  return lost == 0 ? 0 : 1;
}

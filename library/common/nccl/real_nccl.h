// The NCCL behind this library, found at run time: the one that the program would use without us.
#pragma once

#include <atomic>
#include <string>

#include "library/common/nccl/functions.h"

namespace busbw {

// What tells one library of ours in front of NCCL from another. Each defines its own.
struct LibraryInFront {
  // "busbw's GPU library"
  const char* name;
  // A function that it and its copies export, and nothing else.
  const char* mark;
  // A variable that names the library behind it, whatever else there is; null for none.
  const char* over;
};
extern const LibraryInFront this_library;

// By which of its two names a function is called: ncclAllReduce, or pncclAllReduce, which profilers that stand in front
// of NCCL call.
enum class Names { plain, profiling };

// The functions that this library calls itself; null where this NCCL is too old to have one.
struct RealFunctions {
#define BUSBW_MEMBER(member, function) function##_t* member = nullptr;
  BUSBW_REAL_FUNCTIONS(BUSBW_MEMBER)
#undef BUSBW_MEMBER
};

struct RealNccl : RealFunctions {
  RealFunctions profiling;
  const RealFunctions& by(Names names) const { return names == Names::plain ? *this : profiling; }
  // What dlsym takes; RTLD_NEXT where the file behind the functions is not known.
  void* handle = nullptr;
  std::string path;
  int version = 0;
};

// Throws a Failure that says where NCCL was looked for. Looks again at the next call, as the program may load it later.
const RealNccl& found_nccl();
extern constinit std::atomic<const RealNccl*> known_nccl [[gnu::visibility("hidden")]];
inline const RealNccl& real_nccl() {
  const RealNccl* known = known_nccl.load(std::memory_order_acquire);
  return known ? *known : found_nccl();
}

// "2.28.9"
std::string version_text(int code);

// True while this thread is inside a function of the real NCCL. Preloaded, we see NCCL's calls of its own exported
// functions too (ncclBcast calls ncclBroadcast): those go straight back.
// Of this library alone, so that the loader is asked once for all such variables that a call looks at.
extern constinit thread_local int calls_inside_nccl [[gnu::tls_model("local-dynamic"), gnu::visibility("hidden")]];
class InsideNccl {
 public:
  // Whoever has found this thread's count need not look for it again.
  explicit InsideNccl(int& calls = calls_inside_nccl) : calls_(calls) { ++calls_; }
  ~InsideNccl() { --calls_; }
  InsideNccl(const InsideNccl&) = delete;
  InsideNccl& operator=(const InsideNccl&) = delete;

 private:
  int& calls_;
};

// Calls a function of the real NCCL.
template <class Function, class... Arguments>
auto call_nccl(Function* function, Arguments... arguments) {
  const InsideNccl inside;
  return function(arguments...);
}

}  // namespace busbw

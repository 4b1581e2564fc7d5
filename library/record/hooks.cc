// Between the program and the functions of CUDA that make and launch graphs: their entries in the tables by which
// loaded objects call each other (global offset tables) are set to functions of ours, which go on to CUDA's.
//
// That works whichever way we came in front of NCCL, costs a jump at a launch, and reaches a program that calls
// libcudart.so or libcuda.so as a library. A runtime that is linked into the program statically asks the driver for
// addresses itself: its launches are not seen.
#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "library/record/cuda.h"
#include "library/record/graphs.h"

namespace busbw::record {
namespace {

// Each name twice at most: with the per-thread default stream it ends in _ptsz.
#define BUSBW_GRAPH_FUNCTIONS(X)                      \
  X(cudaGraphLaunch, launch)                          \
  X(cudaGraphLaunch_ptsz, launch)                     \
  X(cuGraphLaunch, launch)                            \
  X(cuGraphLaunch_ptsz, launch)                       \
  X(cudaGraphInstantiate, instantiate)                \
  X(cudaGraphInstantiateWithFlags, instantiate)       \
  X(cudaGraphInstantiateWithParams, instantiate)      \
  X(cudaGraphInstantiateWithParams_ptsz, instantiate) \
  X(cuGraphInstantiate, instantiate)                  \
  X(cuGraphInstantiate_v2, instantiate)               \
  X(cuGraphInstantiateWithFlags, instantiate)         \
  X(cuGraphInstantiateWithParams, instantiate)        \
  X(cuGraphInstantiateWithParams_ptsz, instantiate)   \
  X(cudaGraphExecUpdate, update)                      \
  X(cuGraphExecUpdate, update)                        \
  X(cuGraphExecUpdate_v2, update)                     \
  X(cudaGraphExecDestroy, end_executable)             \
  X(cuGraphExecDestroy, end_executable)               \
  X(cudaGraphDestroy, end_graph)                      \
  X(cuGraphDestroy, end_graph)                        \
  X(cudaGraphClone, clone)                            \
  X(cuGraphClone, clone)                              \
  X(cudaGraphAddChildGraphNode, add_child)            \
  X(cuGraphAddChildGraphNode, add_child)              \
  X(cudaGraphAddNode, add_node)                       \
  X(cuGraphAddNode, add_node)                         \
  X(cudaGraphAddNode_v2, add_node_with_edges)         \
  X(cuGraphAddNode_v2, add_node_with_edges)           \
  X(cudaStreamBeginCapture, begin_capture)            \
  X(cudaStreamBeginCapture_ptsz, begin_capture)       \
  X(cuStreamBeginCapture, begin_capture)              \
  X(cuStreamBeginCapture_ptsz, begin_capture)         \
  X(cuStreamBeginCapture_v2, begin_capture)           \
  X(cuStreamBeginCapture_v2_ptsz, begin_capture)      \
  X(cudaStreamBeginCaptureToGraph, capture_to)        \
  X(cudaStreamBeginCaptureToGraph_ptsz, capture_to)   \
  X(cuStreamBeginCaptureToGraph, capture_to)          \
  X(cuStreamBeginCaptureToGraph_ptsz, capture_to)     \
  X(cudaStreamEndCapture, end_capture)                \
  X(cudaStreamEndCapture_ptsz, end_capture)           \
  X(cuStreamEndCapture, end_capture)                  \
  X(cuStreamEndCapture_ptsz, end_capture)

enum Name : int {
#define BUSBW_NUMBER(name, does) number_of_##name,
  BUSBW_GRAPH_FUNCTIONS(BUSBW_NUMBER)
#undef BUSBW_NUMBER
      names
};

// CUDA's own functions.
std::array<std::atomic<void*>, names> real{};

// CUDA's functions that call each other count once.
thread_local int depth = 0;
struct Inside {
  Inside() { ++depth; }
  ~Inside() { --depth; }
  bool outermost() const { return depth == 1; }
};

template <class... Arguments>
int go_on(int name, Arguments... arguments) {
  using Function = int(Arguments...);
  return reinterpret_cast<Function*>(real[std::size_t(name)].load(std::memory_order_acquire))(arguments...);
}

int launch(int name, void* executable, void* stream) {
  const Inside inside;
  if (!inside.outermost()) return go_on(name, executable, stream);
  void* graph = nullptr;
  if (is_captured(stream, &graph)) {
    const int result = go_on(name, executable, stream);
    if (result == 0 && graph) graph_took_executable(graph, executable);
    return result;
  }
  Launch one(executable, stream);
  const int result = go_on(name, executable, stream);
  one.end(result != 0);
  return result;
}

// Forms with less arguments do not look at the last ones.
int instantiate(int name, void** executable, void* graph, void* a, void* b, void* c) {
  const Inside inside;
  const int result = go_on(name, executable, graph, a, b, c);
  if (result == 0 && inside.outermost() && executable) executable_is(*executable, graph);
  return result;
}

int update(int name, void* executable, void* graph, void* a, void* b) {
  const Inside inside;
  const int result = go_on(name, executable, graph, a, b);
  if (result == 0 && inside.outermost()) executable_is(executable, graph);
  return result;
}

int end_executable(int name, void* executable) {
  const Inside inside;
  // Before: another thread may get the handle at once.
  if (inside.outermost()) executable_ended(executable);
  return go_on(name, executable);
}

int end_graph(int name, void* graph) {
  const Inside inside;
  if (inside.outermost()) graph_ended(graph);
  return go_on(name, graph);
}

int clone(int name, void** made, void* from) {
  const Inside inside;
  const int result = go_on(name, made, from);
  if (result == 0 && inside.outermost() && made) graph_was_cloned(*made, from);
  return result;
}

int add_child(int name, void** node, void* graph, const void* behind, std::size_t count, void* child) {
  const Inside inside;
  const int result = go_on(name, node, graph, behind, count, child);
  if (result == 0 && inside.outermost()) graph_took_graph(graph, child);
  return result;
}

// As CUgraphNodeParams begins.
struct NodeParameters {
  int type;
  int reserved[3];
  void* child;
};
constexpr int node_is_graph = 4;

void added(void* graph, const void* parameters) {
  const auto* node = static_cast<const NodeParameters*>(parameters);
  if (node && node->type == node_is_graph) graph_took_graph(graph, node->child);
}

int add_node(int name, void** node, void* graph, const void* behind, std::size_t count, void* parameters) {
  const Inside inside;
  const int result = go_on(name, node, graph, behind, count, parameters);
  if (result == 0 && inside.outermost()) added(graph, parameters);
  return result;
}

int add_node_with_edges(int name, void** node, void* graph, const void* behind, const void* edges, std::size_t count,
                        void* parameters) {
  const Inside inside;
  const int result = go_on(name, node, graph, behind, edges, count, parameters);
  if (result == 0 && inside.outermost()) added(graph, parameters);
  return result;
}

// Open before it begins, so that no call comes between.
int begin_capture(int name, void* stream, int mode) {
  const Inside inside;
  captures.open += inside.outermost();
  const int result = go_on(name, stream, mode);
  if (result != 0) captures.open -= inside.outermost();
  return result;
}

int capture_to(int name, void* stream, void* graph, const void* behind, const void* edges, std::size_t count,
               int mode) {
  const Inside inside;
  captures.open += inside.outermost();
  const int result = go_on(name, stream, graph, behind, edges, count, mode);
  if (result != 0) captures.open -= inside.outermost();
  return result;
}

// A capture that has failed ends with an error.
int end_capture(int name, void* stream, void** graph) {
  const Inside inside;
  if (!inside.outermost()) return go_on(name, stream, graph);
  const bool open = capture_status(stream) != 0;
  const int result = go_on(name, stream, graph);
  if (open && capture_status(stream) == 0) --captures.open;
  return result;
}

// A function for each name, which hands the name on.
template <int name, auto function>
struct Ours;
template <int name, class... Arguments, int (*function)(int, Arguments...)>
struct Ours<name, function> {
  static int call(Arguments... arguments) { return function(name, arguments...); }
};

struct Hook {
  const char* name;
  void* ours;
};
const std::array<Hook, names> hooks = {{
#define BUSBW_HOOK(name, does) {#name, reinterpret_cast<void*>(&Ours<number_of_##name, &does>::call)},
    BUSBW_GRAPH_FUNCTIONS(BUSBW_HOOK)
#undef BUSBW_HOOK
}};

std::atomic<bool> hooked{false};

int hook_of(const char* name) {
  if (name[0] != 'c' || name[1] != 'u' || (!std::strstr(name, "Graph") && !std::strstr(name, "Capture"))) return -1;
  for (int i = 0; i < names; ++i)
    if (std::strcmp(name, hooks[std::size_t(i)].name) == 0) return i;
  return -1;
}

// An object of the loader: what may be written to again, and where its tables are.
struct Object {
  std::string path;
  ElfW(Addr) base = 0;
  ElfW(Addr) sealed_from = 0, sealed_to = 0;
};

constexpr bool is_slot(unsigned long type) {
#if defined(__x86_64__)
  return type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT;
#elif defined(__aarch64__)
  return type == R_AARCH64_JUMP_SLOT || type == R_AARCH64_GLOB_DAT;
#else
  return false;
#endif
}

void set(const Object& object, void** slot, void* value) {
  const auto at = reinterpret_cast<ElfW(Addr)>(slot);
  const bool sealed = at >= object.sealed_from && at < object.sealed_to;
  const auto page = static_cast<ElfW(Addr)>(::sysconf(_SC_PAGESIZE));
  auto* start = reinterpret_cast<void*>(at / page * page);
  if (sealed && ::mprotect(start, page, PROT_READ | PROT_WRITE) != 0) return;
  std::atomic_ref<void*>(*slot).store(value, std::memory_order_release);
  if (sealed) ::mprotect(start, page, PROT_READ);
}

struct Tables {
  const ElfW(Sym) * symbols = nullptr;
  const char* strings = nullptr;
};

void take(const Object& object, void* self, const Tables& tables, const void* entries, std::size_t bytes) {
  const auto* all = static_cast<const ElfW(Rela)*>(entries);
  for (std::size_t i = 0; all && i < bytes / sizeof(ElfW(Rela)); ++i) {
    if (!is_slot(ELF64_R_TYPE(all[i].r_info))) continue;
    const int which = hook_of(tables.strings + tables.symbols[ELF64_R_SYM(all[i].r_info)].st_name);
    if (which < 0) continue;
    const Hook& hook = hooks[std::size_t(which)];
    auto** slot = reinterpret_cast<void**>(object.base + all[i].r_offset);
    if (*slot == hook.ours) continue;
    // As this object finds it: where it has a CUDA of its own, that is left alone.
    void* function = dlsym(self, hook.name);
    void* none = nullptr;
    std::atomic<void*>& known = real[std::size_t(which)];
    if (!function || function == hook.ours) continue;
    if (!known.compare_exchange_strong(none, function) && none != function) continue;
    set(object, slot, hook.ours);
    (std::strstr(hook.name, "BeginCapture") ? captures.are_told : hooked).store(true, std::memory_order_release);
  }
}

void look_at(const Object& object) {
  // Stays loaded while we look.
  void* self = dlopen(object.path.empty() ? nullptr : object.path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  link_map* map = nullptr;
  if (!self || dlinfo(self, RTLD_DI_LINKMAP, &map) != 0 || map->l_addr != object.base) {
    if (self) dlclose(self);
    return;
  }
  Tables tables;
  const void *calls = nullptr, *others = nullptr;
  std::size_t call_bytes = 0, other_bytes = 0;
  for (const ElfW(Dyn)* one = map->l_ld; one->d_tag != DT_NULL; ++one) {
    auto* at = reinterpret_cast<const void*>(one->d_un.d_ptr);
    switch (one->d_tag) {
      case DT_SYMTAB:
        tables.symbols = static_cast<const ElfW(Sym)*>(at);
        break;
      case DT_STRTAB:
        tables.strings = static_cast<const char*>(at);
        break;
      case DT_JMPREL:
        calls = at;
        break;
      case DT_PLTRELSZ:
        call_bytes = one->d_un.d_val;
        break;
      case DT_RELA:
        others = at;
        break;
      case DT_RELASZ:
        other_bytes = one->d_un.d_val;
        break;
      default:
        break;
    }
  }
  if (tables.symbols && tables.strings) {
    take(object, self, tables, calls, call_bytes);
    take(object, self, tables, others, other_bytes);
  }
  dlclose(self);
}

int list(dl_phdr_info* info, std::size_t, void* to) {
  Object object;
  object.path = info->dlpi_name ? info->dlpi_name : "";
  // The kernel's object calls nobody.
  if (object.path.find("linux-vdso") != std::string::npos) return 0;
  object.base = info->dlpi_addr;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) & part = info->dlpi_phdr[i];
    if (part.p_type != PT_GNU_RELRO) continue;
    object.sealed_from = object.base + part.p_vaddr;
    object.sealed_to = object.sealed_from + part.p_memsz;
  }
  static_cast<std::vector<Object>*>(to)->push_back(object);
  return 0;
}

bool wanted() {
  static const bool yes = [] {
    const char* word = std::getenv("BUSBW_RECORD_GRAPHS");
    return !word || std::strcmp(word, "0") != 0;
  }();
  return yes;
}

unsigned long long loads() {
  unsigned long long seen = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* to) {
        *static_cast<unsigned long long*>(to) = info->dlpi_adds;
        return 1;
      },
      &seen);
  return seen;
}

}  // namespace

void hook_graphs() {
  static std::mutex guard;
  static unsigned long long looked_at = 0;
  if (!cuda() || !wanted()) return;
  const std::lock_guard lock(guard);
  const unsigned long long now = loads();
  if (now == looked_at) return;
  looked_at = now;
  // First the list alone: the loader's lock is not held while it is asked further things.
  std::vector<Object> objects;
  dl_iterate_phdr(list, &objects);
  for (const Object& one : objects) look_at(one);
}

bool graphs_are_hooked() { return hooked.load(std::memory_order_acquire); }

}  // namespace busbw::record

// libbusbw_with.so, an auditor of the loader (rtld-audit(7)): whichever way a program opens NCCL, it gets a library of
// ours with that NCCL behind it (docs/decisions/0030).
//
// What the loader is about to open as libnccl.so.2 (by a path, by a name through any search path, as a dependency) it
// is told to take from the shim instead. The shim (BUSBW_WITH_SHIM) consists of its soname and of two dependencies
// under names that exist nowhere: the library in front (BUSBW_WITH_FRONT), and the file that the loader wanted first.
// So the loader itself makes the order in which symbols are found: ours, then NCCL's. It runs in a namespace of its
// own, with the loader's lock held.
#include <link.h>
#include <stdio.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "library/common/elf_symbols.h"
#include "library/with/elf_file.h"

#define AUDIT extern "C" __attribute__((visibility("default")))

namespace {

using namespace busbw;        // NOLINT: the functions below are C
using namespace busbw::with;  // NOLINT: the functions below are C

constexpr const char* name_of_front = "busbw-front-nccl.so";
constexpr const char* name_of_real = "busbw-real-nccl.so";
constexpr int namespaces = 16;  // As many as glibc has.

const char* front = nullptr;
const char* shim = nullptr;
char real[4096] = "";
// Named by the user: nothing else is taken for NCCL.
bool real_is_given = false;
bool quiet = false;
bool shim_is_open = false;
bool told = false;
bool told_of_other = false;

// What one namespace of the loader has.
struct Pair {
  bool shim = false;
  const link_map* front = nullptr;
  const link_map* real = nullptr;
  bool done = false;
};
Pair pairs[namespaces];

// Which of ours an object is; the loader hands this back with what the object asks for.
enum Cookie : std::uintptr_t { somebody = 0, the_front = 1, the_real = 2, the_shim = 3 };

const char* setting(const char* name) {
  const char* value = std::getenv(name);
  return value && *value ? value : nullptr;
}

// One line a job: rank 0 speaks.
bool is_first_rank() {
  for (const char* name : {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "LOCAL_RANK"}) {
    if (const char* rank = setting(name)) return std::strcmp(rank, "0") == 0;
  }
  return true;
}

void tell_of_other(const char* path, const char* why) {
  if (told_of_other || quiet) return;
  told_of_other = true;
  dprintf(2, "busbw with: calls of %s pass busbw by: %s\n", path, why);
}

bool has(const void* symbols, const char* name) { return defines(*static_cast<const ElfSymbols*>(symbols), name); }

// What the user names is NCCL whatever its file is called. Our CPU library is one to be recorded, and to no other
// library of ours: it works in host memory.
bool stands_for_nccl(const char* path) {
  const char* file = last_part(path);
  return is_name_of_nccl(file) || (real_is_given && is_same_file(path, real)) ||
         (std::strcmp(file, "libbusbw_cpu.so") == 0 && std::strcmp(last_part(front), "libbusbw_record.so") == 0);
}

// Whether the loader shall take the shim for this file.
bool takes_shim(const char* path) {
  if (!stands_for_nccl(path) || !fits_this_process(path)) return false;
  if (is_same_file(path, front) || is_same_file(path, shim)) return false;
  if (real_is_given) return true;
  if (shim_is_open) {
    if (is_same_file(path, real)) return true;
    tell_of_other(path, "it is a second NCCL of this process");
    return false;
  }
  // A relative one is found from where the program is now, not from where it will be.
  return realpath(path, real) != nullptr;
}

}  // namespace

AUDIT unsigned int la_version(unsigned int version) {
  front = setting("BUSBW_WITH_FRONT");
  shim = setting("BUSBW_WITH_SHIM");
  quiet = setting("BUSBW_WITH_QUIET") != nullptr || !is_first_rank();
  if (const char* given = setting("BUSBW_REAL_NCCL")) real_is_given = realpath(given, real) != nullptr;
  // 0: the loader goes on without this auditor.
  if (!front || !shim) return 0;
  return version < LAV_CURRENT ? version : LAV_CURRENT;
}

AUDIT char* la_objsearch(const char* name, std::uintptr_t* cookie, unsigned int) {
  const char* answer = name;
  if (std::strcmp(name, name_of_front) == 0) {
    answer = front;
  } else if (std::strcmp(name, name_of_real) == 0) {
    answer = *real ? real : name;
  } else if (*cookie != the_front && *cookie != the_real && std::strchr(name, '/') && takes_shim(name)) {
    answer = shim;
  }
  return const_cast<char*>(answer);
}

AUDIT unsigned int la_objopen(link_map* map, Lmid_t space, std::uintptr_t* cookie) {
  *cookie = somebody;
  const char* path = map->l_name;
  if (!path || !*path || space < 0 || space >= namespaces) return 0;
  // Found on a search path, the shim goes by the name of the file that was asked for.
  if (needs(map, name_of_front)) {
    *cookie = the_shim;
    shim_is_open = pairs[space].shim = true;
  } else if (stands_for_nccl(path) && !pairs[space].shim && space != LM_ID_BASE) {
    tell_of_other(path, "dlmopen opens it by its path, of which the loader tells nobody");
  } else if (std::strcmp(path, front) == 0) {
    *cookie = the_front;
    pairs[space].front = map;
    pairs[space].done = false;
  } else if (*real && std::strcmp(path, real) == 0) {
    *cookie = the_real;
    pairs[space].real = map;
    pairs[space].done = false;
  } else if (!stands_for_nccl(path) && exports(map, "ncclCommInitRank")) {
    tell_of_other(path, "it has an NCCL, or what stands for one, of its own");
  }
  return 0;
}

AUDIT unsigned int la_objclose(std::uintptr_t* cookie) {
  // Which namespace it was is not said; what is open again tells so itself.
  if (*cookie == the_shim) shim_is_open = false;
  return 0;
}

AUDIT void la_activity(std::uintptr_t*, unsigned int what) {
  if (what != LA_ACT_CONSISTENT) return;
  for (Pair& pair : pairs) {
    if (pair.done || !pair.front || !pair.real) continue;
    pair.done = true;
    // Before anything is bound to their symbols.
    const ElfSymbols theirs = symbols_of(pair.real);
    const int hidden = theirs.count == 0 ? -1 : hide_functions(pair.front, has, &theirs);
    if (quiet || told) continue;
    told = true;
    dprintf(2, "busbw with: %s stands in front of %s%s\n", last_part(front), real,
            hidden < 0 ? " (and shows functions that this NCCL lacks)" : "");
  }
}

// The dynamic symbols and dependencies of an object that the loader has loaded, read in memory by the C library alone:
// asking dlsym would look at other objects too.
#pragma once

#include <link.h>

#include <cstddef>

namespace busbw {

struct ElfSymbols {
  ElfW(Sym) * table = nullptr;
  const char* names = nullptr;
  std::size_t count = 0;

  const char* name(std::size_t i) const { return names + table[i].st_name; }
  // Of this object, and not one that it takes from others or that was hidden.
  bool defined(std::size_t i) const { return table[i].st_shndx != SHN_UNDEF && table[i].st_value != 0; }
};

ElfSymbols symbols_of(const link_map* map);
bool defines(const ElfSymbols& symbols, const char* name);
// The same by the object's hash table, for objects with many symbols. One without a GNU hash table says no.
bool exports(const link_map* map, const char* name);
// Whether an object names another as a dependency.
bool needs(const link_map* map, const char* dependency);

// "ncclAllReduce", "pncclAllReduce", and RCCL's "mscclRunAlgo"
bool is_name_of_nccl_function(const char* name);
// Makes functions of NCCL's names that an object has and `there` does not know unknown to the loader, so that a program
// which asks for them gets the answer that it gets without us. Gives how many those are, -1 where none could be hidden.
int hide_functions(const link_map* map, bool (*there)(const void* context, const char* name), const void* context);

}  // namespace busbw

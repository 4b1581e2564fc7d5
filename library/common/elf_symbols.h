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

}  // namespace busbw

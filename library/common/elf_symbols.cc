// Symbol tables as the ELF specification and GNU hash tables lay them out.
#include "library/common/elf_symbols.h"

#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

namespace busbw {
namespace {

// The GNU hash table holds no count: the last symbol is the end of the longest chain.
std::size_t count_by_gnu_hash(const std::uint32_t* hash) {
  const std::uint32_t buckets = hash[0], first = hash[1], bloom = hash[2];
  const auto* bucket = reinterpret_cast<const std::uint32_t*>(reinterpret_cast<const ElfW(Addr)*>(hash + 4) + bloom);
  const std::uint32_t* chain = bucket + buckets;
  std::uint32_t last = 0;
  for (std::uint32_t i = 0; i < buckets; ++i)
    if (bucket[i] > last) last = bucket[i];
  if (last < first) return first;
  while ((chain[last - first] & 1) == 0) ++last;
  return last + 1;
}

// Addresses in the dynamic section are the file's or the process's, as the C library's version has it.
ElfW(Addr) address(const link_map* map, ElfW(Addr) value) { return value < map->l_addr ? map->l_addr + value : value; }

}  // namespace

ElfSymbols symbols_of(const link_map* map) {
  ElfSymbols symbols;
  for (const ElfW(Dyn)* entry = map->l_ld; entry && entry->d_tag != DT_NULL; ++entry) {
    const ElfW(Addr) at = address(map, entry->d_un.d_ptr);
    if (entry->d_tag == DT_SYMTAB) symbols.table = reinterpret_cast<ElfW(Sym)*>(at);
    if (entry->d_tag == DT_STRTAB) symbols.names = reinterpret_cast<const char*>(at);
    if (entry->d_tag == DT_HASH) symbols.count = reinterpret_cast<const std::uint32_t*>(at)[1];
    if (entry->d_tag == DT_GNU_HASH && symbols.count == 0)
      symbols.count = count_by_gnu_hash(reinterpret_cast<const std::uint32_t*>(at));
  }
  if (!symbols.table || !symbols.names) symbols.count = 0;
  return symbols;
}

bool defines(const ElfSymbols& symbols, const char* name) {
  for (std::size_t i = 0; i < symbols.count; ++i)
    if (symbols.defined(i) && std::strcmp(symbols.name(i), name) == 0) return true;
  return false;
}

bool exports(const link_map* map, const char* name) {
  const ElfW(Dyn)* entry = map->l_ld;
  while (entry && entry->d_tag != DT_NULL && entry->d_tag != DT_GNU_HASH) ++entry;
  if (!entry || entry->d_tag == DT_NULL) return false;
  const auto* table = reinterpret_cast<const std::uint32_t*>(address(map, entry->d_un.d_ptr));
  const std::uint32_t buckets = table[0], first = table[1], bloom = table[2];
  if (buckets == 0) return false;
  const auto* bucket = reinterpret_cast<const std::uint32_t*>(reinterpret_cast<const ElfW(Addr)*>(table + 4) + bloom);
  const std::uint32_t* chain = bucket + buckets;
  std::uint32_t hash = 5381;
  for (const char* letter = name; *letter != '\0'; ++letter) hash = hash * 33 + static_cast<unsigned char>(*letter);
  ElfSymbols symbols;
  for (entry = map->l_ld; entry->d_tag != DT_NULL; ++entry) {
    const ElfW(Addr) at = address(map, entry->d_un.d_ptr);
    if (entry->d_tag == DT_SYMTAB) symbols.table = reinterpret_cast<ElfW(Sym)*>(at);
    if (entry->d_tag == DT_STRTAB) symbols.names = reinterpret_cast<const char*>(at);
  }
  std::uint32_t i = bucket[hash % buckets];
  if (i < first || !symbols.table || !symbols.names) return false;
  for (;; ++i) {
    const std::uint32_t found = chain[i - first];
    if ((found | 1) == (hash | 1) && symbols.defined(i) && std::strcmp(symbols.name(i), name) == 0) return true;
    if ((found & 1) != 0) return false;
  }
}

bool needs(const link_map* map, const char* dependency) {
  const char* names = nullptr;
  for (const ElfW(Dyn)* entry = map->l_ld; entry && entry->d_tag != DT_NULL; ++entry)
    if (entry->d_tag == DT_STRTAB) names = reinterpret_cast<const char*>(address(map, entry->d_un.d_ptr));
  if (!names) return false;
  for (const ElfW(Dyn)* entry = map->l_ld; entry->d_tag != DT_NULL; ++entry)
    if (entry->d_tag == DT_NEEDED && std::strcmp(names + entry->d_un.d_val, dependency) == 0) return true;
  return false;
}

bool is_name_of_nccl_function(const char* name) {
  if (*name == 'p') ++name;
  const char* rest = nullptr;
  if (std::strncmp(name, "nccl", 4) == 0) rest = name + 4;
  if (std::strncmp(name, "msccl", 5) == 0) rest = name + 5;
  return rest && *rest >= 'A' && *rest <= 'Z';
}

int hide_functions(const link_map* map, bool (*there)(const void* context, const char* name), const void* context) {
  const ElfSymbols symbols = symbols_of(map);
  if (symbols.count == 0) return -1;
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto start = reinterpret_cast<std::uintptr_t>(symbols.table) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(symbols.table + symbols.count);
  int hidden = 0;
  for (std::size_t i = 0; i < symbols.count; ++i) {
    if (!symbols.defined(i) || !is_name_of_nccl_function(symbols.name(i)) || there(context, symbols.name(i))) continue;
    // Where there is nothing to hide the table stays as it is.
    if (hidden == 0 && mprotect(reinterpret_cast<void*>(start), end - start, PROT_READ | PROT_WRITE) != 0) return -1;
    // The loader passes over a symbol without a value.
    symbols.table[i].st_value = 0;
    ++hidden;
  }
  if (hidden > 0) mprotect(reinterpret_cast<void*>(start), end - start, PROT_READ);
  return hidden;
}

}  // namespace busbw

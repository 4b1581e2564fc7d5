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

// The table that the dynamic section names by `tag`; null where it names none. Addresses there are the file's or the
// process's, as the C library's version has it.
template <typename Entry>
Entry* table(const link_map* map, decltype(ElfW(Dyn)::d_tag) tag) {
  for (const ElfW(Dyn)* entry = map->l_ld; entry && entry->d_tag != DT_NULL; ++entry) {
    const ElfW(Addr) at = entry->d_un.d_ptr;
    if (entry->d_tag == tag) return reinterpret_cast<Entry*>(at < map->l_addr ? map->l_addr + at : at);
  }
  return nullptr;
}

// Of all symbols, not counted.
ElfSymbols uncounted(const link_map* map) {
  return {.table = table<ElfW(Sym)>(map, DT_SYMTAB), .names = table<const char>(map, DT_STRTAB)};
}

}  // namespace

ElfSymbols symbols_of(const link_map* map) {
  ElfSymbols symbols = uncounted(map);
  if (!symbols.table || !symbols.names) return symbols;
  const auto* const counted = table<const std::uint32_t>(map, DT_HASH);
  const auto* const gnu_hash = table<const std::uint32_t>(map, DT_GNU_HASH);
  if (counted) symbols.count = counted[1];
  if (symbols.count == 0 && gnu_hash) symbols.count = count_by_gnu_hash(gnu_hash);
  return symbols;
}

bool defines(const ElfSymbols& symbols, const char* name) {
  for (std::size_t i = 0; i < symbols.count; ++i)
    if (symbols.defined(i) && std::strcmp(symbols.name(i), name) == 0) return true;
  return false;
}

bool exports(const link_map* map, const char* name) {
  const auto* const hashes = table<const std::uint32_t>(map, DT_GNU_HASH);
  if (!hashes || hashes[0] == 0) return false;
  const std::uint32_t buckets = hashes[0], first = hashes[1], bloom = hashes[2];
  const auto* bucket = reinterpret_cast<const std::uint32_t*>(reinterpret_cast<const ElfW(Addr)*>(hashes + 4) + bloom);
  const std::uint32_t* chain = bucket + buckets;
  std::uint32_t hash = 5381;
  for (const char* letter = name; *letter != '\0'; ++letter) hash = hash * 33 + static_cast<unsigned char>(*letter);
  const ElfSymbols symbols = uncounted(map);
  std::uint32_t i = bucket[hash % buckets];
  if (i < first || !symbols.table || !symbols.names) return false;
  for (;; ++i) {
    const std::uint32_t found = chain[i - first];
    if ((found | 1) == (hash | 1) && symbols.defined(i) && std::strcmp(symbols.name(i), name) == 0) return true;
    if ((found & 1) != 0) return false;
  }
}

bool needs(const link_map* map, const char* dependency) {
  const char* const names = table<const char>(map, DT_STRTAB);
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

// Names and headers of files: an auditor has no C++ library, and must not have the loader open what it looks at.
#include "library/with/elf_file.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <initializer_list>

namespace busbw::with {
namespace {

bool is_hex(char letter) { return (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'f'); }

}  // namespace

const char* last_part(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash ? slash + 1 : path;
}

bool is_name_of_nccl(const char* file) {
  const char* rest = nullptr;
  for (const char* start : {"libnccl", "librccl"})
    if (std::strncmp(file, start, std::strlen(start)) == 0) rest = file + std::strlen(start);
  if (!rest) return false;
  if (*rest == '-') {
    const char* hash = ++rest;
    while (is_hex(*rest)) ++rest;
    if (rest - hash < 8) return false;
  }
  if (std::strncmp(rest, ".so", 3) != 0) return false;
  for (rest += 3; *rest != '\0'; ++rest)
    if (*rest != '.' && (*rest < '0' || *rest > '9')) return false;
  return true;
}

bool fits_this_process(const char* path) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  ElfW(Ehdr) header;
  const bool whole = read(file, &header, sizeof header) == static_cast<ssize_t>(sizeof header);
  close(file);
  if (!whole || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return false;
#if defined(__x86_64__)
  constexpr int processor = EM_X86_64;
#elif defined(__aarch64__)
  constexpr int processor = EM_AARCH64;
#else
#error "busbw with is written for x86-64 and aarch64"
#endif
  return header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_machine == processor && header.e_type == ET_DYN;
}

bool is_same_file(const char* a, const char* b) {
  struct stat of_a, of_b;
  return stat(a, &of_a) == 0 && stat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
}

}  // namespace busbw::with

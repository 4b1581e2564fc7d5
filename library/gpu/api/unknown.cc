// Compares the names that the real NCCL exports with those in functions.h.
#include "library/gpu/api/unknown.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "library/common/elf_symbols.h"
#include "library/common/failure.h"

namespace busbw::gpu {
namespace {

constexpr std::string_view known[] = {
#define BUSBW_NAME(member, function) #function,
    BUSBW_REAL_FUNCTIONS(BUSBW_NAME)
#undef BUSBW_NAME
#define BUSBW_NAME(function) #function,
        BUSBW_FORWARDED_FUNCTIONS(BUSBW_NAME)
#undef BUSBW_NAME
};

// What NCCL's names so far say of a function that puts nothing on a stream.
constexpr std::string_view harmless_starts[] = {"ncclGet", "ncclParam", "ncclTeam",
                                                "ncclMem", "ncclDebug", "ncclResetDebug"};
constexpr std::string_view harmless_ends[] = {"Requirement", "CalcSlots", "Properties"};

bool may_put_work_on_a_stream(std::string_view name) {
  return std::none_of(std::begin(harmless_starts), std::end(harmless_starts),
                      [&](std::string_view start) { return name.starts_with(start); }) &&
         std::none_of(std::begin(harmless_ends), std::end(harmless_ends),
                      [&](std::string_view end) { return name.ends_with(end); });
}

std::string_view without_p(std::string_view name) { return name.starts_with('p') ? name.substr(1) : name; }

struct Wanted {
  const std::vector<std::string>* functions;
  std::string found;
};

int look_at_object(dl_phdr_info* info, std::size_t, void* context) {
  auto* wanted = static_cast<Wanted*>(context);
  link_map map{};
  map.l_addr = info->dlpi_addr;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
      map.l_ld = reinterpret_cast<ElfW(Dyn)*>(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
  }
  // The kernel's own object lies in memory of another layout.
  if (!map.l_ld || !info->dlpi_name || std::strstr(info->dlpi_name, "vdso")) return 0;
  const ElfSymbols symbols = symbols_of(&map);
  for (std::size_t i = 0; i < symbols.count; ++i) {
    if (symbols.table[i].st_shndx != SHN_UNDEF || !is_name_of_nccl_function(symbols.name(i))) continue;
    const std::string name(without_p(symbols.name(i)));
    if (std::find(wanted->functions->begin(), wanted->functions->end(), name) == wanted->functions->end()) continue;
    wanted->found = name;
    return 1;
  }
  return 0;
}

bool is_first_rank() {
  for (const char* name : {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "LOCAL_RANK"}) {
    if (const char* rank = std::getenv(name); rank && *rank) return std::strcmp(rank, "0") == 0;
  }
  return true;
}

void tell_once(const RealNccl& real, const std::vector<std::string>& functions) {
  static std::atomic<bool> told{false};
  if (!is_first_rank() || told.exchange(true)) return;
  const std::string others = functions.size() > 1 ? text(" and %zu more", functions.size() - 1) : "";
  std::fprintf(
      stderr,
      "busbw: NCCL %s has functions that this busbw does not know (%s%s). If the program finds and calls them, "
      "nothing orders them with busbw's own kernels. BUSBW_GPU=0 hands everything to NCCL\n",
      version_text(real.version).c_str(), functions.front().c_str(), others.c_str());
}

}  // namespace

std::vector<std::string> unknown_functions(const RealNccl& real) {
  std::vector<std::string> unknown;
  Dl_info where{};
  void* object = nullptr;
  if (dladdr1(reinterpret_cast<const void*>(real.get_version), &where, &object, RTLD_DL_LINKMAP) == 0) return unknown;
  const ElfSymbols symbols = symbols_of(static_cast<const link_map*>(object));
  for (std::size_t i = 0; i < symbols.count; ++i) {
    if (!symbols.defined(i) || !is_name_of_nccl_function(symbols.name(i)) ||
        ELF64_ST_TYPE(symbols.table[i].st_info) != STT_FUNC)
      continue;
    const std::string_view name = without_p(symbols.name(i));
    if (std::find(std::begin(known), std::end(known), name) != std::end(known)) continue;
    if (may_put_work_on_a_stream(name)) unknown.emplace_back(name);
  }
  std::sort(unknown.begin(), unknown.end());
  unknown.erase(std::unique(unknown.begin(), unknown.end()), unknown.end());
  return unknown;
}

std::string linked_to(const std::vector<std::string>& functions) {
  if (functions.empty()) return "";
  Wanted wanted{&functions, ""};
  dl_iterate_phdr(look_at_object, &wanted);
  return wanted.found;
}

std::string why_nccl_is_too_new() {
  const RealNccl& real = real_nccl();
  static const std::vector<std::string> unknown = unknown_functions(real);
  if (unknown.empty()) return "";
  // Objects come later too, so each communicator asks again.
  if (const std::string function = linked_to(unknown); !function.empty()) {
    return text("the program is linked to %s of NCCL %s, which this busbw does not know", function.c_str(),
                version_text(real.version).c_str());
  }
  tell_once(real, unknown);
  return "";
}

}  // namespace busbw::gpu

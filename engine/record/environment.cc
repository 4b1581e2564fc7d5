// The filter between the environment and what is written to disk.
#include "engine/record/environment.h"

#include <algorithm>
#include <cctype>

namespace busbw {
namespace {

constexpr std::size_t longest_value = 4096;

constexpr std::string_view kept_prefixes[] = {"NCCL_",  "RCCL_", "CUDA_", "UCX_",  "OMPI_MCA_", "OMPI_COMM_WORLD_",
                                              "SLURM_", "FI_",   "OMP_",  "BUSBW_"};
constexpr std::string_view kept_names[] = {
    "LD_LIBRARY_PATH", "LD_PRELOAD", "PMI_RANK",         "PMI_SIZE",    "PMI_LOCAL_RANK", "PMIX_RANK", "RANK",
    "WORLD_SIZE",      "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",    "GROUP_RANK"};
// Parts of names whose values are secrets, or may be.
constexpr std::string_view secret_parts[] = {"TOKEN", "SECRET", "KEY",  "PASS",   "CREDENTIAL",
                                             "JWT",   "COOKIE", "AUTH", "PRIVATE"};

Variables every_variable(const char* const* environment) {
  Variables variables;
  for (const char* const* entry = environment; entry && *entry; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=', 1);  // a name may begin with '=', never end there
    if (equals != text.npos) variables.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

}  // namespace

bool is_relevant_variable(std::string_view name) {
  std::string upper(name);
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  for (const std::string_view part : secret_parts)
    if (upper.find(part) != upper.npos) return false;
  for (const std::string_view prefix : kept_prefixes)
    if (name.starts_with(prefix)) return true;
  return std::find(std::begin(kept_names), std::end(kept_names), name) != std::end(kept_names);
}

Variables relevant_environment(const char* const* environment) {
  Variables variables = every_variable(environment);
  std::erase_if(variables, [](const auto& variable) { return !is_relevant_variable(variable.first); });
  for (auto& [name, value] : variables)
    if (value.size() > longest_value) value.resize(longest_value);
  std::sort(variables.begin(), variables.end());
  return variables;
}

Variables full_environment(const char* const* environment) { return every_variable(environment); }

}  // namespace busbw

// Which variables of the environment a record keeps: those that matter to a measurement, and never a secret.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace busbw {

using Variables = std::vector<std::pair<std::string, std::string>>;

// Whether the value of a variable of this name is a secret, or may be, by the rules of both halves.
bool is_secret_name(std::string_view name);

// Whether a variable of this name may be kept.
bool is_relevant_variable(std::string_view name);

// The relevant variables, sorted by name, values cut at 4096 bytes and without what
// looks like a secret wherever it stands (credentials in addresses, tokens, keys). `environment` as in ::environ.
Variables relevant_environment(const char* const* environment);

// Hides what looks like a secret in the values, and cuts them, as relevant_environment does.
void hide_secrets(Variables& variables);

// Files that act, named by a variable or found by a library itself: "file of NCCL_GRAPH_FILE" or "file /etc/nccl.conf",
// and the start of its SHA-256. Two runs whose files have one name need not have had one file. The variable may be one
// of the environment or of an nccl.conf, as an NCCL of this version reads it.
Variables acting_files(const char* const* environment, int version_code);

// Every variable, as it stands: --full-environment.
Variables full_environment(const char* const* environment);

}  // namespace busbw

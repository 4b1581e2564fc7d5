// Finding NCCL: what the words of --library mean, in which order places are looked at, and what was there.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace busbw {

// Where to look, taken from the process's environment once, so that the search itself depends on its arguments and on
// the file system only.
struct SearchPlaces {
  // Files that a launcher already knows, from BUSBW_NCCL_WHEEL and BUSBW_NCCL_TORCH.
  std::string wheel_hint;
  std::string torch_hint;
  // Roots of Python environments, best first: VIRTUAL_ENV, CONDA_PREFIX, that of python3 on PATH.
  std::vector<std::string> python_roots;

  // What `choice` needs of it: asking Python takes a tenth of a second.
  static SearchPlaces of_this_process(const std::string& choice);
};

struct LibraryCandidate {
  enum class Origin { path, wheel, torch, system };
  Origin origin = Origin::path;
  // A file, or for `system` a bare name that the loader resolves.
  std::string file;
  std::string reason;  // why this file: "the wheel nvidia-nccl in /venv"
};

struct LibrarySearch {
  std::vector<LibraryCandidate> candidates;  // best first
  std::vector<std::string> looked_in;        // places without one, for the error
};

// `choice` is a value of --library:
//   wheel   nvidia/nccl/lib/libnccl.so.2 in site-packages of the first Python environment that has one
//   torch   the NCCL that PyTorch of the first Python environment loads: its own copy, or the wheel beside it
//   system  what the loader finds: LD_LIBRARY_PATH, then the system's folders
//   auto    wheel, torch, system, in this order: what a training job in this environment would load comes first
// Everything else is a path and the only candidate. Loads nothing.
LibrarySearch find_libraries(const std::string& choice, const SearchPlaces& places);

// One sentence for a person: no NCCL, where it was looked for, what to try.
std::string describe_failed_search(const std::string& choice, const LibrarySearch& search);

// What NCCL writes into its own file: "NCCL version 2.28.9+cuda13.0".
struct NcclBuild {
  std::string version;
  std::string cuda_version;
};

// Reads the constants of the file, not its GPU code. Empty for files that say nothing of the kind.
std::optional<NcclBuild> nccl_build_of(const std::string& file);

}  // namespace busbw

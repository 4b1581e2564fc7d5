// The places where NCCL lies on machines of the field, and reading a library's own statement about its build.
#include "engine/library_api/discovery.h"

#include <elf.h>
#include <glob.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

namespace busbw {
namespace {

namespace fs = std::filesystem;
using Origin = LibraryCandidate::Origin;

constexpr const char* soname = "libnccl.so.2";
// Constants of NCCL take 0.2 MB; the bound only keeps a damaged file from asking for all memory.
constexpr std::uint64_t most_constants = 64 << 20;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

void add_once(std::vector<std::string>& list, const std::string& entry) {
  if (!entry.empty() && std::find(list.begin(), list.end(), entry) == list.end()) list.push_back(entry);
}

// What python3 itself says, for wrapper scripts such as pyenv's. Takes some ten milliseconds: only where the file
// system says nothing.
std::string ask_python() {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(
      popen("exec python3 -c 'import sys; print(sys.prefix)' 2> /dev/null", "r"), pclose);
  char line[4096] = "";
  if (pipe == nullptr || std::fgets(line, sizeof line, pipe.get()) == nullptr) return "";
  return std::string(line, std::strcspn(line, "\n"));
}

std::vector<std::string> expand(const std::string& pattern) {
  std::vector<std::string> paths;
  glob_t found{};
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0)
    for (std::size_t i = 0; i < found.gl_pathc; ++i) paths.emplace_back(found.gl_pathv[i]);
  globfree(&found);
  return paths;
}

// A virtual environment's python is a link out of it: the folder that holds the link is the environment. Where python
// itself is linked into a bin folder, the link's target tells the root.
std::vector<std::string> roots_of_python_on_path() {
  std::vector<std::string> roots;
  std::istringstream folders(environment("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path python = fs::path(folder) / "python3";
    std::error_code error;
    if (folder.empty() || !fs::exists(python, error)) continue;
    for (const fs::path& bin : {fs::path(folder), fs::canonical(python, error).parent_path()})
      if (!expand((bin.parent_path() / "lib" / "python3*").string()).empty())
        add_once(roots, bin.parent_path().string());
    if (roots.empty()) add_once(roots, ask_python());
    break;
  }
  return roots;
}

// Folders in which this environment's packages lie; Debian calls its own dist-packages.
std::vector<std::string> package_folders(const std::string& root) {
  std::vector<std::string> folders;
  for (const char* kind :
       {"/lib/python3*/site-packages", "/lib64/python3*/site-packages", "/lib/python3*/dist-packages",
        "/lib/python3/dist-packages", "/local/lib/python3*/dist-packages"})
    for (const std::string& folder : expand(root + kind)) {
      // lib64 is often a link to lib.
      const bool known = std::any_of(folders.begin(), folders.end(), [&folder](const std::string& other) {
        std::error_code error;
        return fs::equivalent(folder, other, error);
      });
      if (!known) folders.push_back(folder);
    }
  return folders;
}

fs::path wheel_file(const fs::path& packages) { return packages / "nvidia" / "nccl" / "lib" / soname; }

void find_wheel(const SearchPlaces& places, LibrarySearch& search) {
  if (!places.wheel_hint.empty()) {
    search.candidates.push_back({Origin::wheel, places.wheel_hint, "BUSBW_NCCL_WHEEL"});
    return;
  }
  for (const std::string& root : places.python_roots)
    for (const std::string& packages : package_folders(root)) {
      if (is_file(wheel_file(packages))) {
        search.candidates.push_back({Origin::wheel, wheel_file(packages), "the wheel nvidia-nccl in " + packages});
        return;
      }
      add_once(search.looked_in, packages);
    }
}

// PyTorch's own wheels carry no NCCL but need nvidia-nccl, which lies beside; builds from source put it into torch/lib.
void find_torch(const SearchPlaces& places, LibrarySearch& search) {
  if (!places.torch_hint.empty()) {
    search.candidates.push_back({Origin::torch, places.torch_hint, "BUSBW_NCCL_TORCH"});
    return;
  }
  for (const std::string& root : places.python_roots)
    for (const std::string& packages : package_folders(root)) {
      const fs::path folder = fs::path(packages) / "torch" / "lib";
      std::error_code error;
      if (!fs::is_directory(folder, error)) {
        add_once(search.looked_in, folder.string());
        continue;
      }
      for (const fs::path& file : {folder / soname, wheel_file(packages)})
        if (is_file(file)) {
          search.candidates.push_back({Origin::torch, file, "what PyTorch in " + packages + " loads"});
          return;
        }
      add_once(search.looked_in, folder.string());
    }
}

void find_system(LibrarySearch& search) {
  search.candidates.push_back({Origin::system, soname, "the loader's: LD_LIBRARY_PATH, then the system's folders"});
}

// The section of this name in a 64-bit little-endian ELF file, or nothing.
std::string read_section(std::ifstream& file, const std::string& wanted) {
  Elf64_Ehdr header{};
  if (!file.read(reinterpret_cast<char*>(&header), sizeof header)) return "";
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64) return "";
  if (header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shstrndx >= header.e_shnum) return "";
  std::vector<Elf64_Shdr> sections(header.e_shnum);
  file.seekg(static_cast<std::streamoff>(header.e_shoff));
  if (!file.read(reinterpret_cast<char*>(sections.data()),
                 static_cast<std::streamsize>(sections.size() * sizeof(Elf64_Shdr))))
    return "";
  const auto read = [&file](const Elf64_Shdr& section) {
    std::string bytes(static_cast<std::size_t>(std::min<std::uint64_t>(section.sh_size, most_constants)), '\0');
    file.seekg(static_cast<std::streamoff>(section.sh_offset));
    return file.read(bytes.data(), static_cast<std::streamsize>(bytes.size())) ? bytes : std::string();
  };
  const std::string names = read(sections[header.e_shstrndx]);
  for (const Elf64_Shdr& section : sections)
    if (section.sh_name < names.size() && names.c_str() + section.sh_name == wanted) return read(section);
  return "";
}

}  // namespace

SearchPlaces SearchPlaces::of_this_process(const std::string& choice) {
  SearchPlaces places{
      .wheel_hint = environment("BUSBW_NCCL_WHEEL"), .torch_hint = environment("BUSBW_NCCL_TORCH"), .python_roots = {}};
  const bool wheel = (choice == "wheel" || choice == "auto") && places.wheel_hint.empty();
  const bool torch = (choice == "torch" || choice == "auto") && places.torch_hint.empty();
  if (!wheel && !torch) return places;
  add_once(places.python_roots, environment("VIRTUAL_ENV"));
  add_once(places.python_roots, environment("CONDA_PREFIX"));
  for (const std::string& root : roots_of_python_on_path()) add_once(places.python_roots, root);
  return places;
}

LibrarySearch find_libraries(const std::string& choice, const SearchPlaces& places) {
  LibrarySearch search;
  if (choice == "wheel") {
    find_wheel(places, search);
  } else if (choice == "torch") {
    find_torch(places, search);
  } else if (choice == "system") {
    find_system(search);
  } else if (choice == "auto") {
    find_wheel(places, search);
    find_torch(places, search);
    find_system(search);
  } else {
    search.candidates.push_back({Origin::path, choice, "the path given"});
  }
  return search;
}

std::string describe_failed_search(const std::string& choice, const LibrarySearch& search) {
  std::string tried;
  for (const LibraryCandidate& candidate : search.candidates)
    tried += ", " + candidate.file + " (" + candidate.reason + ")";
  std::string empty;
  for (const std::string& place : search.looked_in) empty += ", " + place;
  std::string sentence = "no NCCL was found for --library " + choice;
  if (!tried.empty()) sentence += "; tried without success: " + tried.substr(2);
  if (!empty.empty()) sentence += "; it is not in " + empty.substr(2);
  if (tried.empty() && empty.empty()) sentence += "; no Python environment is active and none is on PATH";
  return sentence + "; install it (pip install nvidia-nccl-cu13, or -cu12 for a CUDA 12 driver) or give a path";
}

std::optional<NcclBuild> nccl_build_of(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  const std::string constants = read_section(stream, ".rodata");
  const std::string mark = "NCCL version ";
  for (std::size_t at = constants.find(mark); at != std::string::npos; at = constants.find(mark, at + 1)) {
    const std::string text = constants.c_str() + at + mark.size();
    const std::size_t plus = text.find("+cuda");
    if (plus == std::string::npos || text.empty() || text[0] < '0' || text[0] > '9') continue;
    const std::size_t cuda = plus + std::strlen("+cuda");
    return NcclBuild{.version = text.substr(0, plus),
                     .cuda_version = text.substr(cuda, text.find_first_not_of("0123456789.", cuda) - cuda)};
  }
  return std::nullopt;
}

}  // namespace busbw

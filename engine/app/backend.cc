// From the word after --library to an open library and its platform.
#include "engine/app/backend.h"

#include <unistd.h>

#include <array>
#include <climits>
#include <cstdlib>
#include <filesystem>

#include "engine/library_api/discovery.h"

#include "engine/library_api/discovery.h"

namespace busbw {
namespace {

namespace fs = std::filesystem;

constexpr const char* cpu_library = "libbusbw_cpu.so";

fs::path own_folder() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  return error ? fs::path{} : program.parent_path();
}

// Beside the program in a build folder, in lib/ of an installation, or where the environment says.
std::string find_cpu_library() {
  if (const char* path = std::getenv("BUSBW_CPU_LIBRARY")) return path;
  const fs::path folder = own_folder();
  std::string looked_in;
  for (const fs::path& place : {folder / "../lib", folder / "../lib64", folder}) {
    std::error_code error;
    if (fs::exists(place / cpu_library, error)) return fs::canonical(place / cpu_library, error).string();
    looked_in += (looked_in.empty() ? "" : ", ") + place.lexically_normal().string();
  }
  throw Error(ExitCode::bad_arguments,
              format("%s was not found in %s; build it with `make build`, or say where it is in "
                     "BUSBW_CPU_LIBRARY",
                     cpu_library, looked_in.c_str()));
}

// busbw's own libraries say by their name where their buffers lie; everything else is taken for a GPU library.
bool runs_on_host(const Library& library) { return library.name().find(" CPU ") != std::string::npos; }

Backend with_platform(std::unique_ptr<Library> library) {
  if (runs_on_host(*library)) return {make_host_platform(), std::move(library), ""};
  std::string why_not;
  std::unique_ptr<Platform> platform = make_cuda_platform(why_not);
  if (platform == nullptr)
    throw Error(ExitCode::cuda, format("%s needs a GPU, but %s; --library cpu measures this machine's processors",
                                       library->path().c_str(), why_not.c_str()));
  return {std::move(platform), std::move(library), ""};
}

// The first candidate that loads. What does not load is named with the loader's reason.
std::unique_ptr<Library> open_first(const std::string& choice) {
  const LibrarySearch search = find_libraries(choice, SearchPlaces::of_this_process());
  std::string reasons;
  for (const LibraryCandidate& candidate : search.candidates) {
    try {
      return std::make_unique<Library>(candidate.file);
    } catch (const Error& error) {
      if (candidate.origin == LibraryCandidate::Origin::path) throw;
      reasons += format("; %s: %s", candidate.reason.c_str(), error.what());
    }
  }
  throw Error(ExitCode::bad_arguments, describe_failed_search(choice, search) + reasons);
}

// GPUs and an NCCL where both are there, else this machine's processors. The reason is kept for the person.
Backend open_best() {
  std::string why_not;
  std::unique_ptr<Platform> gpus = make_cuda_platform(why_not);
  if (gpus == nullptr) return {make_host_platform(), std::make_unique<Library>(find_cpu_library()), why_not};
  try {
    return {std::move(gpus), open_first("auto"), ""};
  } catch (const Error& error) {
    return {make_host_platform(), std::make_unique<Library>(find_cpu_library()), error.what()};
  }
}

}  // namespace

Backend open_backend(const std::string& choice) {
  if (choice == "auto") return open_best();
  if (choice == "cpu") return with_platform(std::make_unique<Library>(find_cpu_library()));
  return with_platform(open_first(choice));
}

}  // namespace busbw

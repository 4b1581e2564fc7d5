// From the word after --library to an open library and its platform.
#include "engine/app/backend.h"

#include <unistd.h>

#include <array>
#include <climits>
#include <cstdlib>
#include <filesystem>

#include "engine/library_api/discovery.h"

namespace busbw {
namespace {

namespace fs = std::filesystem;

fs::path own_folder() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  return error ? fs::path{} : program.parent_path();
}

// Beside the program in a build folder, in lib/ of an installation, or where the environment says.
std::string find_own_library(const char* name, const char* variable, const char* how_to_build) {
  if (const char* path = std::getenv(variable)) return path;
  const fs::path folder = own_folder();
  std::string looked_in;
  for (const fs::path& place : {folder / "../lib", folder / "../lib64", folder}) {
    std::error_code error;
    if (fs::exists(place / name, error)) return fs::canonical(place / name, error).string();
    looked_in += (looked_in.empty() ? "" : ", ") + place.lexically_normal().string();
  }
  throw Error(ExitCode::bad_arguments, format("%s was not found in %s; build it with %s, or say where it is in %s",
                                              name, looked_in.c_str(), how_to_build, variable));
}

std::string find_cpu_library() { return find_own_library("libbusbw_cpu.so", "BUSBW_CPU_LIBRARY", "`make build`"); }

std::string find_gpu_library() {
  return find_own_library("libbusbw_gpu.so", "BUSBW_GPU_LIBRARY", "`make build` where there is a CUDA compiler");
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
  const LibrarySearch search = find_libraries(choice, SearchPlaces::of_this_process(choice));
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

// busbw's GPU library stands before an NCCL, to which it hands what it does not do itself. It is told which before it
// is loaded.
Backend open_gpu_library() {
  std::string why_not;
  std::unique_ptr<Platform> gpus = make_cuda_platform(why_not);
  if (gpus == nullptr)
    throw Error(ExitCode::cuda, format("--library busbw needs GPUs, but %s; --library cpu measures this machine's "
                                       "processors",
                                       why_not.c_str()));
  const std::string file = find_gpu_library();
  constexpr const char* real = "BUSBW_REAL_NCCL";
  if (const char* given = std::getenv(real); given == nullptr || *given == '\0')
    setenv(real, open_first("auto")->path().c_str(), 1);
  return {std::move(gpus), std::make_unique<Library>(file), ""};
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
  if (choice == "busbw") return open_gpu_library();
  return with_platform(open_first(choice));
}

}  // namespace busbw

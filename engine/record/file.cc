// Writing with the system's own calls: nothing is kept in a buffer that a killed process would lose.
#include "engine/record/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>

#include "engine/core/error.h"

namespace busbw {
namespace {

// `write_part` writes a part of the text and returns its length as write(2) does.
template <typename WritePart>
void write_all(const std::string& path, std::string_view text, WritePart write_part) {
  while (!text.empty()) {
    const ssize_t written = write_part(text);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0)
      throw Error(ExitCode::internal,
                  "'" + path + "' cannot be written any further: " + std::strerror(written < 0 ? errno : ENOSPC) +
                      "; what was measured before is in it");
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace

OutputFile::OutputFile(OutputFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), path_(std::move(other.path_)) {}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(path_, other.path_);
  return *this;
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void OutputFile::append(std::string_view text) {
  write_all(path_, text, [&](std::string_view rest) { return ::write(descriptor_, rest.data(), rest.size()); });
}

void OutputFile::write_at(std::string_view text, std::size_t offset) {
  write_all(path_, text, [&](std::string_view rest) {
    const std::size_t done = text.size() - rest.size();
    return ::pwrite(descriptor_, rest.data(), rest.size(), static_cast<off_t>(offset + done));
  });
}

int open_to_write(const std::string& path, int flags) {
  constexpr std::chrono::seconds patience(5);
  const auto end = std::chrono::steady_clock::now() + patience;
  while (true) {
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | flags, 0644);
    if (descriptor >= 0) {
      ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) & ~O_NONBLOCK);
      return descriptor;
    }
    struct stat status{};
    if (errno != ENXIO || ::stat(path.c_str(), &status) != 0 || !S_ISFIFO(status.st_mode)) return -1;
    if (std::chrono::steady_clock::now() > end) {
      errno = ETIMEDOUT;
      return -1;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

void make_folders_above(const std::string& path, const char* what) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (folder.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error && !std::filesystem::is_directory(folder))
    throw Error(ExitCode::bad_arguments, std::string("the folder '") + folder.string() + "' for " + what +
                                             " cannot be made: " + error.message() +
                                             "; name a folder you can write to");
}

}  // namespace busbw

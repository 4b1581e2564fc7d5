// The meeting file of one host.
#include "engine/rendezvous/join/meeting_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "engine/core/error.h"
#include "engine/core/sha256.h"
#include "engine/platform/lifeline.h"
#include "engine/rendezvous/net/socket.h"

namespace busbw {
namespace {

constexpr std::size_t longest_meeting = 512;

[[noreturn]] void folder_failed(const std::string& path, const char* why) {
  throw Error(ExitCode::bad_arguments,
              format("The processes of this job cannot meet in the folder %s: %s; remove or repair it, or set "
                     "XDG_RUNTIME_DIR to a folder of your own",
                     path.c_str(), why));
}

bool is_folder(const std::string& path) {
  struct stat status{};
  return !path.empty() && stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

std::string folder_path(const std::string& runtime_folder) {
  return is_folder(runtime_folder) ? runtime_folder + "/busbw" : "/tmp/busbw-" + std::to_string(getuid());
}

// Empty where the folder is there and this user's alone.
std::string why_not_private(const std::string& path) {
  struct stat status{};
  if (lstat(path.c_str(), &status) != 0) return std::strerror(errno);
  if (!S_ISDIR(status.st_mode)) return "it is a link or file, not a folder";
  if (status.st_uid != getuid()) return "it belongs to another user";
  if ((status.st_mode & 077) != 0) return "other users may enter it (its mode is not 0700)";
  return "";
}

std::string network_namespace() {
  char name[64] = "";
  const ssize_t length = readlink("/proc/self/ns/net", name, sizeof name - 1);
  return length > 0 ? std::string(name, static_cast<std::size_t>(length)) : "";
}

}  // namespace

std::string private_folder(const std::string& runtime_folder) {
  const std::string path = folder_path(runtime_folder);
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) folder_failed(path, std::strerror(errno));
  if (const std::string why = why_not_private(path); !why.empty()) folder_failed(path, why.c_str());
  return path;
}

std::string existing_private_folder(const std::string& runtime_folder) {
  const std::string path = folder_path(runtime_folder);
  return why_not_private(path).empty() ? path : "";
}

std::string door_name(const std::string& runtime_folder, const std::string& identity) {
  const std::string words = folder_path(runtime_folder) + "\n" + identity + "\n" + std::to_string(getuid());
  return "busbw-meeting-" + hex(sha256(words)).substr(0, 32);
}

std::string meeting_path(const std::string& folder, const std::string& identity) {
  return folder + "/" +
         hex(sha256(identity + "\n" + std::to_string(getuid()) + "\n" + network_namespace())).substr(0, 32);
}

std::optional<Meeting> read_meeting(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  struct stat status{};
  if (!file.open() || fstat(file.get(), &status) != 0) return std::nullopt;
  if (!S_ISREG(status.st_mode) || status.st_uid != getuid() || (status.st_mode & 077) != 0) return std::nullopt;
  char text[longest_meeting + 1] = "";
  if (read(file.get(), text, longest_meeting) <= 0) return std::nullopt;
  Meeting meeting;
  char secret[129] = "";
  if (std::sscanf(text, "busbw meeting 1\nport %5d\nsecret %128s", &meeting.port, secret) != 2) return std::nullopt;
  meeting.secret = secret;
  if (meeting.port < 1 || meeting.port > 65535) return std::nullopt;
  return meeting;
}

void remove_if_abandoned(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  struct stat status{}, named{};
  if (!file.open() || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != getuid()) return;
  if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) return;
  if (lstat(path.c_str(), &named) == 0 && named.st_ino == status.st_ino) unlink(path.c_str());
}

void sweep_abandoned(const std::string& folder) {
  constexpr int most = 1000;
  constexpr time_t youngest_s = 5;  // a file is made and locked in two steps
  DIR* const listing = opendir(folder.c_str());
  if (listing == nullptr) return;
  const time_t now = time(nullptr);
  for (int count = 0; count < most; ++count) {
    const dirent* entry = readdir(listing);
    if (entry == nullptr) break;
    const std::string path = folder + "/" + entry->d_name;
    struct stat status{};
    if (lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && now - status.st_mtime > youngest_s)
      remove_if_abandoned(path);
  }
  closedir(listing);
}

PublishedMeeting::PublishedMeeting(const std::string& path, const Meeting& meeting) {
  const std::string draft = path + "." + std::to_string(getpid());
  unlink(draft.c_str());  // of a process that died with this number
  FileDescriptor file(open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  // Where the file system has no locks nobody can take the file for abandoned.
  if (file.open()) flock(file.get(), LOCK_EX | LOCK_NB);
  const std::string text = format("busbw meeting 1\nport %d\nsecret %s\n", meeting.port, meeting.secret.c_str());
  struct stat status{};
  const bool written = file.open() &&
                       write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                       fstat(file.get(), &status) == 0 && rename(draft.c_str(), path.c_str()) == 0;
  if (!written) {
    const int why = errno;
    unlink(draft.c_str());
    folder_failed(path, std::strerror(why));
  }
  path_ = path;
  inode_ = status.st_ino;
  lock_ = std::move(file);
  lifeline::forget_file_at_end(path);
}

PublishedMeeting& PublishedMeeting::operator=(PublishedMeeting&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(inode_, other.inode_);
  std::swap(lock_, other.lock_);
  return *this;
}

void PublishedMeeting::remove() {
  struct stat status{};
  if (!path_.empty() && lstat(path_.c_str(), &status) == 0 && status.st_ino == inode_) unlink(path_.c_str());
  if (!path_.empty()) lifeline::forget_file_at_end("");
  path_.clear();
}

}  // namespace busbw

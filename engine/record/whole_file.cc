// Replacement by rename(2), which other processes see as one step.
#include "engine/record/whole_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "engine/core/error.h"

namespace busbw {
namespace {

[[noreturn]] void refuse(const std::string& path, const char* reason) {
  throw Error(ExitCode::internal,
              "'" + path + "' cannot be written any further: " + reason + "; what was measured before is in it");
}

// In the folder of `path`, as a rename stays within one file system; its name is short, as that of `path` may already
// be as long as a name can be. mkostemp(3) never follows a link that a stranger put there.
std::string pattern_beside(const std::string& path) { return path.substr(0, path.rfind('/') + 1) + ".busbw-XXXXXX"; }

// A new file that goes away again unless it takes the name that it is meant for.
class Successor {
 public:
  explicit Successor(const OutputFile& old) : final_path_(old.path()), name_(pattern_beside(old.path())) {
    const int descriptor = ::mkostemp(name_.data(), O_CLOEXEC);
    if (descriptor < 0) refuse(final_path_, std::strerror(errno));
    exists_ = true;
    file_ = OutputFile(descriptor, final_path_);  // complaints are about the file that the user named
    struct stat status{};
    if (::fstat(old.descriptor(), &status) == 0) mode_ = status.st_mode & 07777;
  }
  ~Successor() {
    if (exists_) ::unlink(name_.c_str());
  }
  Successor(const Successor&) = delete;
  Successor& operator=(const Successor&) = delete;

  OutputFile& file() { return file_; }

  OutputFile take_over() {
    // A file system without modes refuses this and needs it not: the text matters more.
    [[maybe_unused]] const int ignored = ::fchmod(file_.descriptor(), mode_);
    if (::rename(name_.c_str(), final_path_.c_str()) != 0) refuse(final_path_, std::strerror(errno));
    exists_ = false;
    return std::move(file_);
  }

 private:
  std::string final_path_;
  std::string name_;
  OutputFile file_;
  mode_t mode_ = 0644;
  bool exists_ = false;
};

}  // namespace

WholeFile::WholeFile(OutputFile file, std::size_t most_replaced)
    : file_(std::move(file)), most_replaced_(most_replaced) {}

void WholeFile::extend(std::string_view text, std::string_view closing) {
  if (!in_place_ && kept_bytes_ + text.size() + closing.size() > most_replaced_) {
    in_place_ = true;
    kept_ = std::string();
  }
  if (in_place_) {
    extend_in_place(text, closing);
  } else {
    std::string whole = kept_;
    replace(whole.append(text).append(closing));
    kept_.append(text);
  }
  kept_bytes_ += text.size();
  closing_ = closing;
}

// No fsync(2): a killed process loses nothing that the kernel has, and waiting for the disk would disturb the next
// case.
void WholeFile::replace(std::string_view whole) {
  Successor successor(file_);
  successor.file().append(whole);
  file_ = successor.take_over();
}

void WholeFile::extend_in_place(std::string_view text, std::string_view closing) {
  try {
    file_.write_at(std::string(text).append(closing), kept_bytes_);
  } catch (const Error&) {
    // The old closing goes back where it was, for which even a full disk still has the room.
    const std::size_t end = kept_bytes_ + closing_.size();
    if (::ftruncate(file_.descriptor(), static_cast<off_t>(end)) == 0) file_.write_at(closing_, kept_bytes_);
    throw;
  }
}

}  // namespace busbw

// Files that a run writes as it goes.
#pragma once

#include <string>
#include <string_view>

namespace busbw {

// An open file, closed when it goes.
class OutputFile {
 public:
  OutputFile() = default;
  OutputFile(int descriptor, std::string path) : descriptor_(descriptor), path_(std::move(path)) {}
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;
  ~OutputFile();

  const std::string& path() const { return path_; }

  // Where the file stands, in one write(2) unless the system takes less. Throws Error(internal) on a full disk.
  void append(std::string_view text);
  // At this offset of a regular file; a process killed in between leaves it cut, most likely where a page ends.
  void write_at(std::string_view text, std::size_t offset);
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
  std::string path_;
};

// open(2) for writing, with these flags besides. A pipe that has a name gets its reader within 5 s, or -1 and
// ETIMEDOUT.
int open_to_write(const std::string& path, int flags);

// Makes the folders above `path`. Throws Error(bad_arguments) where that fails; `what` names the file in the sentence.
void make_folders_above(const std::string& path, const char* what);

}  // namespace busbw

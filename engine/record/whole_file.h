// A file that grows and is whole whenever somebody looks, even after the process was killed in the middle of a write.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "engine/record/file.h"

namespace busbw {

// What is kept, with a closing behind it that the next text replaces: the brackets that JSON needs at its end. Every
// write is a new file beside the old one that takes its name at once, so that a reader sees the old text or the new. A
// text longer than `most_replaced` bytes is no longer written again as a whole, which would cost a growing run more at
// every row: from there on it grows in place, and a kill during that one write may leave the file cut.
class WholeFile {
 public:
  static constexpr std::size_t most_replaced_by_default = 4u << 20;

  // `file` is a regular file that this process created, empty, and that nobody else writes.
  explicit WholeFile(OutputFile file, std::size_t most_replaced = most_replaced_by_default);

  const std::string& path() const { return file_.path(); }

  // Puts `text` behind what is kept, and `closing` behind that for as long as nothing follows. A closing must not be
  // longer than the text and closing that replace it. Throws Error(internal) where it cannot be written, as on a full
  // disk: the file then is as it was before, and nothing is left beside it.
  void extend(std::string_view text, std::string_view closing);

 private:
  void replace(std::string_view whole);
  void extend_in_place(std::string_view text, std::string_view closing);

  OutputFile file_;  // what stands under the name now
  std::size_t most_replaced_;
  std::string kept_;  // without its closing; empty once the file grows in place
  std::size_t kept_bytes_ = 0;
  std::string closing_;
  bool in_place_ = false;
};

}  // namespace busbw

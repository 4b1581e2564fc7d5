// The kernel's release and the GPU driver's version, each cut to what a version can be.
#include "engine/platform/software.h"

#include <sys/utsname.h>

#include <cctype>
#include <fstream>

namespace busbw {
namespace {

constexpr std::size_t longest = 100;

// Printable and short: it goes into records and is shown.
std::string word_of(const std::string& text) {
  std::string word;
  for (const char each : text) {
    if (std::isgraph(static_cast<unsigned char>(each)) == 0 || word.size() == longest) break;
    word += each;
  }
  return word;
}

}  // namespace

std::string kernel_release() {
  utsname names{};
  return ::uname(&names) == 0 ? word_of(names.release) : "";
}

std::string gpu_driver_version(const char* path) {
  std::ifstream file(path);
  char text[longest + 1] = "";
  file.read(text, longest);
  return word_of(text);
}

}  // namespace busbw

// The first line of a file, such as those that the kernel makes under /proc and /sys.
#pragma once

#include <fstream>
#include <string>

namespace busbw {

// Empty where there is no such file.
inline std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace busbw

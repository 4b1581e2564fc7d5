// Runs a program as a user would and gives what it wrote.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

namespace busbw::gpu::test {

struct Finished {
  int status = -1;
  std::string output;
};

// `environment` as a shell has it before a command. A preloaded library comes before a sanitizer's runtime, which that
// runtime would refuse.
inline Finished run(const std::string& environment, const std::string& command) {
  const std::string line =
      "ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0 " + environment + " " + command + " 2>&1";
  Finished finished;
  std::FILE* pipe = ::popen(line.c_str(), "r");
  if (!pipe) return finished;
  std::array<char, 4096> block{};
  for (std::size_t got = 0; (got = std::fread(block.data(), 1, block.size(), pipe)) > 0;)
    finished.output.append(block.data(), got);
  const int status = ::pclose(pipe);
  finished.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return finished;
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace busbw::gpu::test

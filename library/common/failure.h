// The libraries' error: a result code of the NCCL API and one full sentence for ncclGetLastError.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <stdexcept>
#include <string>

#include "busbw/nccl_abi.h"

namespace busbw {

class Failure : public std::runtime_error {
 public:
  Failure(ncclResult_t code, const std::string& sentence) : std::runtime_error(sentence), code_(code) {}
  ncclResult_t code() const { return code_; }

 private:
  ncclResult_t code_;
};

// printf into a string; std::format needs GCC 13, which older HPC images lack.
[[gnu::format(printf, 1, 2)]] inline std::string text(const char* pattern, ...) {
  va_list arguments;
  va_start(arguments, pattern);
  char buffer[1024];
  std::vsnprintf(buffer, sizeof buffer, pattern, arguments);
  va_end(arguments);
  return buffer;
}

}  // namespace busbw

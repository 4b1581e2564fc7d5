// Errors of the engine: one full sentence for a person, and the exit code that nccl-tests gives for that kind of
// failure.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

namespace busbw {

// Exit codes of nccl-tests, which scripts already know.
enum class ExitCode : int {
  success = 0,
  internal = 1,
  cuda = 2,
  nccl = 3,
  timeout = 4,
  not_implemented = 5,
  invalid_usage = 6,
  wrong_data = 7,
  interrupted = 130,
  bad_arguments = 255,
};

// Programs that stand in for nccl-tests' end with its codes. busbw's own end with 2 where words cannot be understood,
// as every verb of busbw does; CUDA's failures, which have that number in nccl-tests, then end with 8.
enum class ExitCodes { nccl_tests, busbw };
inline ExitCodes exit_codes = ExitCodes::nccl_tests;  // set by main() before anything can fail

inline int exit_status(ExitCode code) {
  if (exit_codes == ExitCodes::busbw && code == ExitCode::bad_arguments) return 2;
  if (exit_codes == ExitCodes::busbw && code == ExitCode::cuda) return 8;
  return static_cast<int>(code);
}

// printf into a string; std::format needs GCC 13, which older HPC images lack.
[[gnu::format(printf, 1, 2)]] inline std::string format(const char* pattern, ...) {
  va_list arguments;
  va_start(arguments, pattern);
  va_list again;
  va_copy(again, arguments);
  const int length = std::vsnprintf(nullptr, 0, pattern, arguments);
  va_end(arguments);
  std::string text(length < 0 ? 0 : static_cast<std::size_t>(length), '\0');
  if (length > 0) std::vsnprintf(text.data(), text.size() + 1, pattern, again);
  va_end(again);
  return text;
}

class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& sentence) : std::runtime_error(sentence), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

// What was thrown by the standard library, as a sentence: it mostly means that the system has no more of something.
inline std::string explained(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr)
    return "the engine ran out of memory; try a smaller -e, or look at ulimit -v and -d";
  const auto* of_system = dynamic_cast<const std::system_error*>(&error);
  if (of_system != nullptr && of_system->code() == std::errc::resource_unavailable_try_again)
    return "the system gives no more threads, or no memory for one; look at ulimit -u, -v and -d";
  return std::string("internal error: ") + error.what();
}

// Thrown on ranks that stop because another one failed: the first failure is reported once, with its rank.
class PeerFailure : public Error {
 public:
  PeerFailure(ExitCode code, const std::string& sentence, int rank) : Error(code, sentence), rank_(rank) {}
  int rank() const { return rank_; }

 private:
  int rank_;
};

}  // namespace busbw

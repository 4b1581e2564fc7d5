// The size grammar of nccl-tests and the loops over sizes, made to end.
#include "engine/app/size.h"

#include <cctype>
#include <cmath>
#include <cstdlib>
#include <string>

#include "engine/core/error.h"

namespace busbw {
namespace {

constexpr std::size_t most_sizes = 1'000'000;
constexpr double size_limit = 9223372036854775808.0;  // 2^63: sizes stay whole numbers in every JSON reader's range

[[noreturn]] void refuse_size(std::string_view text) {
  throw Error(ExitCode::bad_arguments, "invalid size specified for '" + std::string(text) +
                                           "'; write a number of bytes such as 8, 512K, 1.5M or 2G");
}

// 1 without a letter, 0 for a letter that is no unit.
double unit_after(const char* rest) {
  while (std::isspace(static_cast<unsigned char>(*rest))) ++rest;
  switch (*rest) {
    case '\0':
      return 1;
    case 'K':
    case 'k':
      return 1024.0;
    case 'M':
    case 'm':
      return 1024.0 * 1024;
    case 'G':
    case 'g':
      return 1024.0 * 1024 * 1024;
    default:
      return 0;
  }
}

// Where the sweep goes on after a size of 0, which neither doubling nor multiplying leaves.
std::size_t after_zero(const SizeRange& range) {
  return range.factor > 1 ? static_cast<std::size_t>(range.factor) : range.step.count;
}

// The size after this one, or nothing more than the last: a product or sum that overflows ends the sweep too.
std::size_t next_size(const SizeRange& range, std::size_t size) {
  if (size == 0) return after_zero(range);
  std::size_t next = 0;
  const bool overflow = range.factor > 1 ? __builtin_mul_overflow(size, static_cast<std::size_t>(range.factor), &next)
                                         : __builtin_add_overflow(size, range.step.count, &next);
  return overflow ? SIZE_MAX : next;
}

void check_that_it_ends(const SizeRange& range) {
  if (range.first > range.last)
    throw Error(
        ExitCode::bad_arguments,
        format("the first size (-b) of %zu bytes is above the last size (-e) of %zu bytes; raise -e or lower -b",
               range.first.count, range.last.count));
  if (range.factor <= 1 && range.step.count == 0 && range.first < range.last)
    throw Error(
        ExitCode::bad_arguments,
        "a step of 0 bytes (-i 0) never reaches the last size; give a step such as -i 1M or a factor such as -f 2");
}

}  // namespace

Bytes parse_size(std::string_view text) {
  const std::string copy(text);
  if (copy.find('\0') != std::string::npos) refuse_size("a text with a zero byte");
  const char* begin = copy.c_str();
  char* rest = nullptr;
  const double number = std::strtod(begin, &rest);
  if (rest == begin || !std::isfinite(number) || std::signbit(number)) refuse_size(text);
  const double bytes = number * unit_after(rest);
  if (unit_after(rest) == 0 || !(bytes < size_limit)) refuse_size(text);
  return Bytes{static_cast<std::size_t>(bytes)};
}

std::vector<Bytes> sizes_of(const SizeRange& range) {
  check_that_it_ends(range);
  std::vector<Bytes> sizes;
  for (std::size_t size = range.first.count; size <= range.last.count;) {
    if (sizes.size() == most_sizes)
      throw Error(
          ExitCode::bad_arguments,
          format("these options ask for more than %zu sizes; take a larger step (-i) or a factor (-f)", most_sizes));
    sizes.push_back(Bytes{size});
    const std::size_t next = next_size(range, size);
    if (next <= size) break;
    size = next;
  }
  return sizes;
}

std::vector<Bytes> warmup_sizes(const SizeRange& range) {
  check_that_it_ends(range);
  std::vector<Bytes> sizes;
  for (std::size_t size = range.first.count; size <= range.last.count;) {
    sizes.push_back(Bytes{size});
    const std::size_t next = size == 0 ? after_zero(range) : size > SIZE_MAX / 2 ? SIZE_MAX : 2 * size;
    if (next <= size) break;
    size = next;
  }
  return sizes;
}

}  // namespace busbw

// The hash that tells two builds of a library apart.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace busbw {

// SHA-256 in hexadecimal; empty for a file that cannot be read to its end.
std::string sha256_of_file(const std::string& path);

// Nothing for what is no regular file.
std::optional<std::uintmax_t> size_of_file(const std::string& path);

}  // namespace busbw

// Hashes a file in pieces, because libraries of hundreds of megabytes are common.
#include "engine/record/file_hash.h"

#include <filesystem>
#include <fstream>
#include <vector>

#include "engine/core/sha256.h"

namespace busbw {

std::string sha256_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file || !size_of_file(path)) return {};
  constexpr std::size_t piece_bytes = std::size_t{1} << 20;
  std::vector<char> piece(piece_bytes);
  Sha256 hash;
  while (file) {
    file.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    hash.update(piece.data(), static_cast<std::size_t>(file.gcount()));
  }
  return file.bad() ? std::string() : hex(hash.finish());
}

std::optional<std::uintmax_t> size_of_file(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error) || error) return std::nullopt;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error) return std::nullopt;
  return size;
}

}  // namespace busbw

// SHA-256 and HMAC-SHA-256 (FIPS 180-4, RFC 2104): for the hash of a library in a record and the secret of a job.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace busbw {

using Digest = std::array<std::uint8_t, 32>;

// Hashes a stream in pieces, so that a file need not fit into memory.
class Sha256 {
 public:
  // Whether this processor has instructions for it.
  static bool has_instructions();
  explicit Sha256(bool by_instructions = has_instructions()) : by_instructions_(by_instructions) {}

  void update(const void* data, std::size_t bytes);
  void update(std::string_view text) { update(text.data(), text.size()); }
  Digest finish();

 private:
  void compress(const std::uint8_t* block);

  bool by_instructions_;
  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::uint8_t, 64> block_{};
  std::size_t filled_ = 0;
  std::uint64_t total_ = 0;
};

Digest sha256(std::string_view text);
Digest hmac_sha256(std::string_view key, std::string_view message);
std::string hex(const Digest& digest);

// Takes the same time wherever the two differ, so that a stranger cannot guess a digest byte by byte.
bool equal_in_constant_time(const Digest& a, const Digest& b);

}  // namespace busbw

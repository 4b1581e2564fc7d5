// SHA-256 as FIPS 180-4 writes it down.
#include "engine/core/sha256.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#include <algorithm>
#include <bit>
#include <cstring>

namespace busbw {
namespace {

constexpr std::array<std::uint32_t, 64> round_constants{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::uint32_t big_endian_word(const std::uint8_t* bytes) {
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 | std::uint32_t{bytes[2]} << 8 | bytes[3];
}

std::array<std::uint32_t, 64> message_schedule(const std::uint8_t* block) {
  std::array<std::uint32_t, 64> w;
  for (int t = 0; t < 16; ++t) w[t] = big_endian_word(block + 4 * t);
  for (int t = 16; t < 64; ++t) {
    const std::uint32_t s0 = std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ (w[t - 15] >> 3);
    const std::uint32_t s1 = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ (w[t - 2] >> 10);
    w[t] = w[t - 16] + s0 + w[t - 7] + s1;
  }
  return w;
}

void compress_portably(std::array<std::uint32_t, 8>& state, const std::uint8_t* block) {
  const auto w = message_schedule(block);
  auto [a, b, c, d, e, f, g, h] = state;
  for (int t = 0; t < 64; ++t) {
    const std::uint32_t sum1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const std::uint32_t choice = (e & f) ^ (~e & g);
    const std::uint32_t t1 = h + sum1 + choice + round_constants[t] + w[t];
    const std::uint32_t sum0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const std::uint32_t majority = (a & b) ^ (a & c) ^ (b & c);
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + sum0 + majority;
  }
  const std::array<std::uint32_t, 8> after{a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; ++i) state[i] += after[i];
}

#if defined(__x86_64__)
// Processors since Goldmont, Ice Lake and Zen have instructions for two rounds at a time: four to seven times as fast.
// They keep the state as the words F E B A and H G D C of their registers, and take four words of the schedule at once.
__attribute__((target("sha,sse4.1"))) void compress_by_instructions(std::array<std::uint32_t, 8>& state,
                                                                    const std::uint8_t* block) {
  const __m128i byte_order = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  const auto load = [](const void* from) __attribute__((target("sha,sse4.1"))) {
    return _mm_loadu_si128(static_cast<const __m128i*>(from));
  };
  const __m128i cdab = _mm_shuffle_epi32(load(&state[0]), 0xb1);
  const __m128i efgh = _mm_shuffle_epi32(load(&state[4]), 0x1b);
  __m128i abef = _mm_alignr_epi8(cdab, efgh, 8);
  __m128i cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);
  const __m128i abef_before = abef;
  const __m128i cdgh_before = cdgh;
  __m128i words[4];
  for (int i = 0; i < 4; ++i) words[i] = _mm_shuffle_epi8(load(block + 16 * i), byte_order);
  for (int t = 0; t < 16; ++t) {
    const __m128i now = words[t % 4];
    const __m128i sum = _mm_add_epi32(now, load(&round_constants[static_cast<std::size_t>(4 * t)]));
    cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
    abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
    // The words that are needed four steps on.
    const __m128i third = words[(t + 2) % 4];
    const __m128i fourth = words[(t + 3) % 4];
    const __m128i begun = _mm_sha256msg1_epu32(now, words[(t + 1) % 4]);
    words[t % 4] = _mm_sha256msg2_epu32(_mm_add_epi32(begun, _mm_alignr_epi8(fourth, third, 4)), fourth);
  }
  abef = _mm_add_epi32(abef, abef_before);
  cdgh = _mm_add_epi32(cdgh, cdgh_before);
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1b);
  const __m128i dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(&state[0]), _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(&state[4]), _mm_alignr_epi8(dchg, feba, 8));
}
#endif

}  // namespace

bool Sha256::has_instructions() {
#if defined(__x86_64__)
  // GCC 12 does not know the name of the feature: leaf 7, bit 29 of EBX.
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  static const bool has = __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (ebx >> 29 & 1U) != 0 &&
                          __builtin_cpu_supports("sse4.1") != 0;
  return has;
#else
  return false;
#endif
}

void Sha256::compress(const std::uint8_t* block) {
#if defined(__x86_64__)
  if (by_instructions_) return compress_by_instructions(state_, block);
#endif
  compress_portably(state_, block);
}

void Sha256::update(const void* data, std::size_t bytes) {
  const auto* next = static_cast<const std::uint8_t*>(data);
  total_ += bytes;
  while (bytes > 0) {
    if (filled_ == 0 && bytes >= block_.size()) {
      compress(next);
      next += block_.size(), bytes -= block_.size();
      continue;
    }
    const std::size_t taken = std::min(bytes, block_.size() - filled_);
    std::memcpy(block_.data() + filled_, next, taken);
    next += taken, bytes -= taken, filled_ += taken;
    if (filled_ == block_.size()) {
      compress(block_.data());
      filled_ = 0;
    }
  }
}

Digest Sha256::finish() {
  const std::uint64_t bits = total_ * 8;
  const std::size_t zeros = (filled_ < 56 ? 55 : 119) - filled_;
  std::array<std::uint8_t, 128> tail{0x80};
  for (int i = 0; i < 8; ++i) tail[1 + zeros + i] = static_cast<std::uint8_t>(bits >> (56 - 8 * i));
  update(tail.data(), 1 + zeros + 8);
  Digest digest;
  for (int i = 0; i < 32; ++i) digest[i] = static_cast<std::uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
  return digest;
}

Digest sha256(std::string_view text) {
  Sha256 hash;
  hash.update(text);
  return hash.finish();
}

Digest hmac_sha256(std::string_view key, std::string_view message) {
  std::array<std::uint8_t, 64> padded{};
  if (key.size() > padded.size()) {
    const Digest shorter = sha256(key);
    std::copy(shorter.begin(), shorter.end(), padded.begin());
  } else {
    std::copy(key.begin(), key.end(), padded.begin());
  }
  auto inner_key = padded, outer_key = padded;
  for (auto& byte : inner_key) byte ^= 0x36;
  for (auto& byte : outer_key) byte ^= 0x5c;
  Sha256 inner, outer;
  inner.update(inner_key.data(), inner_key.size());
  inner.update(message);
  const Digest inside = inner.finish();
  outer.update(outer_key.data(), outer_key.size());
  outer.update(inside.data(), inside.size());
  return outer.finish();
}

std::string hex(const Digest& digest) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : digest) text += {digits[byte >> 4], digits[byte & 15]};
  return text;
}

bool equal_in_constant_time(const Digest& a, const Digest& b) {
  std::uint8_t difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference |= a[i] ^ b[i];
  return difference == 0;
}

}  // namespace busbw

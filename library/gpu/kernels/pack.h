// Packs: the 8 or 16 bytes that a thread moves at once, and user memory seen as a row of them, at any alignment.
#pragma once

#include "library/gpu/kernels/machine.h"
#include "library/gpu/kernels/range.h"

namespace busbw::gpu {

template <int Bytes>
struct alignas(Bytes) Pack {
  std::uint32_t word[Bytes / 4];
};

// Aligned packs, all of them whole.
template <int Bytes>
class WholePackRow {
 public:
  BUSBW_DEVICE explicit WholePackRow(std::uintptr_t memory) : packs_(reinterpret_cast<Pack<Bytes>*>(memory)) {}
  BUSBW_DEVICE Pack<Bytes> load(std::uint64_t index) const { return packs_[index]; }
  BUSBW_DEVICE void store(std::uint64_t index, const Pack<Bytes>& pack) const { packs_[index] = pack; }

 private:
  Pack<Bytes>* packs_;
};

// User memory as packs. The last pack may be short; what it lacks reads as zero and is not written.
template <int Bytes>
class PackRow {
 public:
  BUSBW_DEVICE PackRow(const void* memory, std::uint64_t bytes)
      : memory_(reinterpret_cast<std::uintptr_t>(memory)), bytes_(bytes) {}

  // Can the first `packs` packs be accessed as whole ones? Then whole() is the fast way to do it.
  BUSBW_DEVICE bool is_whole(std::uint64_t packs) const { return memory_ % Bytes == 0 && packs * Bytes <= bytes_; }
  BUSBW_DEVICE WholePackRow<Bytes> whole() const { return WholePackRow<Bytes>(memory_); }

  BUSBW_DEVICE Pack<Bytes> load(std::uint64_t index) const {
    const std::uint64_t at = index * Bytes;
    if (whole<Bytes>(at)) return *reinterpret_cast<const Pack<Bytes>*>(memory_ + at);
    Pack<Bytes> pack{};
    BUSBW_UNROLL
    for (int i = 0; i < Bytes / 4; ++i) pack.word[i] = load_word(at + 4 * i);
    return pack;
  }

  BUSBW_DEVICE void store(std::uint64_t index, const Pack<Bytes>& pack) const {
    const std::uint64_t at = index * Bytes;
    if (whole<Bytes>(at)) {
      *reinterpret_cast<Pack<Bytes>*>(memory_ + at) = pack;
      return;
    }
    BUSBW_UNROLL
    for (int i = 0; i < Bytes / 4; ++i) store_bytes(at + 4 * i, pack.word[i]);
  }

  // One word of a pack.
  BUSBW_DEVICE void store_word(std::uint64_t index, std::uint32_t word, std::uint32_t value) const {
    store_bytes(index * Bytes + 4 * word, value);
  }

 private:
  // May `Size` bytes be accessed at once?
  template <int Size>
  BUSBW_DEVICE bool whole(std::uint64_t at) const {
    return memory_ % Size == 0 && at + Size <= bytes_;
  }

  BUSBW_DEVICE std::uint32_t load_word(std::uint64_t at) const {
    if (whole<4>(at)) return *reinterpret_cast<const std::uint32_t*>(memory_ + at);
    std::uint32_t word = 0;
    BUSBW_UNROLL
    for (int i = 0; i < 4; ++i)
      if (at + i < bytes_) word |= std::uint32_t{*reinterpret_cast<const std::uint8_t*>(memory_ + at + i)} << (8 * i);
    return word;
  }

  BUSBW_DEVICE void store_bytes(std::uint64_t at, std::uint32_t word) const {
    if (whole<4>(at)) {
      *reinterpret_cast<std::uint32_t*>(memory_ + at) = word;
      return;
    }
    BUSBW_UNROLL
    for (int i = 0; i < 4; ++i)
      if (at + i < bytes_)
        *reinterpret_cast<std::uint8_t*>(memory_ + at + i) = static_cast<std::uint8_t>(word >> (8 * i));
  }

  std::uintptr_t memory_;
  std::uint64_t bytes_;
};

// This block's part of a row of `packs`.
BUSBW_DEVICE Range channel_part(std::uint64_t packs) { return Range{0, packs}.part(channel_index(), channel_count()); }

BUSBW_DEVICE Words words_of(const Pack<16>& pack) { return {{pack.word[0], pack.word[1], pack.word[2], pack.word[3]}}; }
BUSBW_DEVICE Pack<16> pack_of(const Words& words) {
  return {{words.word[0], words.word[1], words.word[2], words.word[3]}};
}

BUSBW_DEVICE const unsigned char* at(const void* memory, std::uint64_t offset) {
  return static_cast<const unsigned char*>(memory) + offset;
}
BUSBW_DEVICE unsigned char* at(void* memory, std::uint64_t offset) {
  return static_cast<unsigned char*>(memory) + offset;
}

}  // namespace busbw::gpu

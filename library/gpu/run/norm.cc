// How all-reduce, residual and RMSNorm are started.
#include "library/gpu/run/norm.h"

#include <algorithm>

#include "library/common/failure.h"
#include "library/gpu/choose/choice_table.h"
#include "library/gpu/kernels/norm.h"

namespace busbw::gpu {
namespace {

constexpr std::size_t pack = 16;

// Up to so many bytes one hop with all of them to every peer should take no longer than two hops (not measured yet).
std::size_t most_in_one_shot(int ranks) { return std::size_t(ranks == 2 ? 512 : ranks <= 4 ? 192 : 48) << 10; }

// A thread has no more packs of a row than it keeps, and a warp is never divided.
int threads_for(std::size_t packs_at_once, std::size_t row_packs) {
  const std::size_t least = (row_packs + most_packs_of_a_norm - 1) / most_packs_of_a_norm;
  return int(std::clamp<std::size_t>((std::max(packs_at_once, least) + 31) / 32 * 32, 128, max_threads));
}

// Rows that are fewer than channels are shared out. A member of fewer packs than this is not worth the word to the
// others.
constexpr std::size_t least_packs_of_a_member = 128;

int members_for(std::size_t rows, std::size_t row_packs, std::size_t channels) {
  std::size_t members = 1;
  while (members < 8 && 2 * members * rows <= channels && row_packs / (2 * members) >= least_packs_of_a_member) {
    members *= 2;
  }
  return int(members);
}

bool aligned(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory) % pack == 0; }

}  // namespace

std::string why_no_norm(const NormCall& call) {
  if (call.type != ncclFloat16 && call.type != ncclBfloat16 && call.type != ncclFloat32) {
    return "the type is none of half, bfloat16 and float";
  }
  if (call.hidden == 0 || call.hidden > most_hidden) {
    return text("a row has %zu elements; it takes 1 to %zu", call.hidden, most_hidden);
  }
  if (call.hidden * type_bytes(call.type) % pack != 0) {
    return text("a row has %zu bytes; it takes a multiple of 16", std::size_t(call.hidden * type_bytes(call.type)));
  }
  if (call.rows > (std::size_t(1) << 31)) return text("there are %zu rows; it takes 2^31 at most", call.rows);
  if (call.rows == 0) return "";
  const void* const output = call.output;
  const void* const residual_out = call.residual_out;
  for (const void* memory : {call.input, call.residual, call.weight, output, residual_out}) {
    if (!memory) return "a buffer is null";
    if (!aligned(memory)) return "a buffer does not begin at a multiple of 16 bytes";
  }
  const std::size_t bytes = call.rows * call.hidden * type_bytes(call.type);
  const auto overlap = [&](const void* a, const void* b) {
    const auto first = reinterpret_cast<std::uintptr_t>(a);
    const auto second = reinterpret_cast<std::uintptr_t>(b);
    return first < second + bytes && second < first + bytes;
  };
  if (overlap(output, call.residual) || overlap(output, residual_out)) return "the output overlaps a residual";
  return "";
}

NormShape norm_alone_shape(std::size_t rows, std::size_t row_bytes) {
  constexpr std::size_t most_blocks = 4096;
  return {NormWay::alone, int(std::min(rows, most_blocks)), threads_for(row_bytes / pack, row_bytes / pack)};
}

NormShape norm_shape(std::size_t rows, std::size_t row_bytes, const Layout& layout, int channel_limit) {
  const std::size_t row_packs = row_bytes / pack;
  const auto ranks = std::size_t(layout.ranks);
  const auto most = std::size_t(std::min(layout.channels, channel_limit));
  const int members = members_for(rows, row_packs, most);
  const std::size_t channels = std::min(rows * std::size_t(members), most);
  // Of the largest channel.
  const std::size_t packs = members > 1 ? (row_packs + std::size_t(members) - 1) / std::size_t(members)
                                        : (rows + channels - 1) / channels * row_packs;
  const std::size_t of_a_row = std::min(packs, row_packs);
  const std::size_t share = (packs + ranks - 1) / ranks;
  if (rows * row_bytes <= most_in_one_shot(layout.ranks) && packs <= layout.sentinel_packs) {
    return {NormWay::one_shot, int(channels), threads_for(packs, of_a_row), members};
  }
  // Every rank must have a share of each row's packs, or a set of slots is filled while it is read.
  if (share <= layout.sentinel_packs && row_packs >= ranks) {
    return {NormWay::two_shot, int(channels), threads_for(share, of_a_row), members};
  }
  return norm_alone_shape(rows, row_bytes);
}

NormArguments norm_arguments(const NormCall& call) {
  NormArguments n;
  n.all.send = call.input;
  n.all.recv = call.output;
  n.all.count = call.rows * call.hidden;
  n.all.op = op_sum;
  n.residual = call.residual;
  n.residual_out = call.residual_out;
  n.weight = call.weight;
  n.rows = call.rows;
  n.row_packs = std::uint32_t(call.hidden * type_bytes(call.type) / pack);
  n.row_elements = std::uint32_t(call.hidden);
  n.epsilon = call.epsilon;
  return n;
}

}  // namespace busbw::gpu

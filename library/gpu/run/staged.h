// Collectives by copy engines, between ordinary buffers and without a kernel that waits: a rank pushes into its peers'
// scratch and fetches from it, so that every address is known to the rank that uses it. Only a sum needs a kernel, and
// that one is short (kernels/add.h).
//
// Where the ranks know each other's own buffers for this call (join/lending.h), what only moves needs no scratch:
//
//     all-gather, all-to-all   tell that the own buffer is ready | fetch from the others' buffers | wait for their
//     fetches
//
//     all-reduce      push share j to rank j | add the own share, offer the result | fetch the others' results
//     reduce-scatter  push block j to rank j | add the own block
//     all-gather                               offer the own block                 | fetch the others' blocks
//     all-to-all                               offer a block for each peer         | fetch one of each peer
//
// Long messages go in pieces, which take two lanes of the scratch in turn. Pushing, adding and fetching are streams of
// their own then, and words in the scratch order them (StagedWord in kernels/layout.h): the streams of the copy engines
// wait for them themselves, no multiprocessor does.
//
//     push     | piece 0 | piece 1 | piece 2 (when the slot of piece 0 is vacant) ...
//     call         | add 0 | add 1 | ...
//     fetch            | fetch 0 | fetch 1 | ...
//
// A rank issues push 0, push 1, add 0, fetch 0, push 2, add 1, fetch 1 and so on: where streams share a hardware
// channel they take their turns in this order, and nothing then waits for what stands behind it on any rank.
//
// Why a rank may push again: the receiver has said `vacant` after it has added. Why it may offer again: every peer has
// said `fetched`. Why a word is never told twice before it is seen: its writer has seen, in between, a word that its
// owner writes after that. Slots are vacant at first and nothing is offered, so that a call need not wait for the one
// before.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "library/gpu/choose/names.h"
#include "library/gpu/kernels/arguments.h"

namespace busbw::gpu {

struct StagedStep {
  enum class Kind : std::uint8_t { await, see, set, copy, add };
  // Streams: the call's own, one that pushes, one that fetches.
  enum Stream : std::uint8_t { call, push, fetch };

  Kind kind{};
  Stream stream = call;
  // await: until each has its value, then gives it the other one. see: only waits. set: gives each its value, behind
  // everything before it in the stream.
  struct Word {
    std::uint32_t* at = nullptr;
    std::uint32_t value = 0;  // told_by() of what it says
  };
  std::array<Word, 2 * max_ranks> words{};
  int word_count = 0;
  // copy
  void* to = nullptr;
  const void* from = nullptr;
  std::uint64_t bytes = 0;
  bool within = false;   // this GPU's own memory
  void* also = nullptr;  // a second place there, or null
  AddArguments sum;
};

struct StagedRequest {
  Collective collective{};
  const void* send = nullptr;
  void* recv = nullptr;
  std::uint64_t bytes = 0;  // of the vector, or of what one rank has for one other
  ReduceOp op = op_sum;
  int rank = 0;
  int pieces = 1;
  bool copies_to_two = false;                       // a copy within the GPU can have two places
  std::array<unsigned char*, max_ranks> scratch{};  // of every rank, as this rank addresses it
  // Every rank's `send`, as this rank addresses it; null where the call goes through the scratch. All ranks or none.
  const std::array<const unsigned char*, max_ranks>* lent = nullptr;
  Layout layout;
};

// The fewest pieces that fit into the scratch. `bytes` as in StagedRequest.
std::uint64_t least_pieces(Collective collective, std::uint64_t bytes, const Layout& layout);

// What the rank does, in the order in which it is put into its streams. Where there is one piece, all is in the call's
// stream.
std::vector<StagedStep> staged_plan(const StagedRequest& request);

}  // namespace busbw::gpu

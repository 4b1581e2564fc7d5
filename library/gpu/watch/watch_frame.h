// The messages by which ranks of a communicator tell each other that one of them is gone: 256 bytes on a local socket.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "library/gpu/kernels/layout.h"

namespace busbw::gpu {

enum class FrameKind : std::uint8_t {
  hello = 1,   // to rank 0: I am rank `rank`
  welcome,     // from rank 0: everyone is there
  ended,       // rank `rank` is lost without a word
  exited,      // its program ended without destroying the communicator
  aborted,     // it called ncclCommAbort
  failed,      // it cannot go on, for the reason in `text`
  closed,      // it destroyed the communicator and holds no one's memory any more
  all_closed,  // from rank 0: nobody does
};

using WatchSecret = std::array<unsigned char, 16>;

// Calls that a rank has done; it does not know, or cannot say.
inline constexpr std::uint64_t unknown_calls = ~std::uint64_t{0};

struct Frame {
  std::uint32_t magic = 0x77627562;
  FrameKind kind = FrameKind::hello;
  std::uint8_t rank = 0;
  std::uint16_t reserved = 0;
  WatchSecret secret{};  // of a hello
  // Of exited and aborted: calls that were all done there, so that nobody will ever wait for this rank in one of them.
  std::uint64_t calls = unknown_calls;
  char text[224] = {};
};
static_assert(sizeof(Frame) == 256);

Frame make_frame(FrameKind kind, int rank, const std::string& text = "");
// Nothing for bytes that are no frame. The text ends and can be printed, whatever was sent.
std::optional<Frame> parse_frame(const void* bytes, std::size_t size);

}  // namespace busbw::gpu

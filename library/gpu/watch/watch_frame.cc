// Reads and writes frames. What is read is a stranger's until it has passed here.
#include "library/gpu/watch/watch_frame.h"

#include <algorithm>
#include <cstring>

namespace busbw::gpu {

Frame make_frame(FrameKind kind, int rank, const std::string& text) {
  Frame frame;
  frame.kind = kind;
  frame.rank = std::uint8_t(rank);
  std::memcpy(frame.text, text.data(), std::min(text.size(), sizeof frame.text - 1));
  return frame;
}

std::optional<Frame> parse_frame(const void* bytes, std::size_t size) {
  // As plain numbers first: not every byte is a FrameKind.
  if (size != sizeof(Frame)) return std::nullopt;
  const auto* raw = static_cast<const unsigned char*>(bytes);
  const unsigned char kind = raw[offsetof(Frame, kind)];
  if (kind < std::uint8_t(FrameKind::hello) || kind > std::uint8_t(FrameKind::all_closed)) return std::nullopt;
  Frame frame;
  const std::uint32_t magic = frame.magic;
  std::memcpy(&frame, bytes, sizeof frame);
  if (frame.magic != magic || frame.rank >= max_ranks || frame.reserved != 0) return std::nullopt;
  frame.text[sizeof frame.text - 1] = '\0';
  for (char& letter : frame.text) {
    if (letter != '\0' && (letter < ' ' || letter > '~')) letter = '?';
  }
  return frame;
}

}  // namespace busbw::gpu

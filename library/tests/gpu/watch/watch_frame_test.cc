// What comes over the socket is a frame or nothing.
#include "library/gpu/watch/watch_frame.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

namespace busbw::gpu {
namespace {

TEST(WatchFrame, ComesBackAsItWasMade) {
  const Frame frame = make_frame(FrameKind::failed, 5, "the launch failed");
  const std::optional<Frame> read = parse_frame(&frame, sizeof frame);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->kind, FrameKind::failed);
  EXPECT_EQ(read->rank, 5);
  EXPECT_STREQ(read->text, "the launch failed");
}

TEST(WatchFrame, OfAnotherLengthIsNone) {
  const Frame frame = make_frame(FrameKind::closed, 1);
  std::vector<unsigned char> bytes(2 * sizeof frame);
  std::memcpy(bytes.data(), &frame, sizeof frame);
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    EXPECT_EQ(parse_frame(bytes.data(), size).has_value(), size == sizeof frame) << size;
  }
}

TEST(WatchFrame, WithAFieldOutOfRangeIsNone) {
  const auto with = [](auto change) {
    Frame frame = make_frame(FrameKind::closed, 1);
    unsigned char bytes[sizeof frame];
    std::memcpy(bytes, &frame, sizeof frame);
    change(bytes);
    return parse_frame(bytes, sizeof bytes).has_value();
  };
  EXPECT_TRUE(with([](unsigned char*) {}));
  EXPECT_FALSE(with([](unsigned char* bytes) { bytes[0] ^= 1; }));
  EXPECT_FALSE(with([](unsigned char* bytes) { bytes[offsetof(Frame, kind)] = 0; }));
  EXPECT_FALSE(with([](unsigned char* bytes) { bytes[offsetof(Frame, kind)] = 9; }));
  EXPECT_FALSE(with([](unsigned char* bytes) { bytes[offsetof(Frame, rank)] = max_ranks; }));
  EXPECT_FALSE(with([](unsigned char* bytes) { bytes[offsetof(Frame, reserved)] = 1; }));
}

TEST(WatchFrame, RandomBytesNeverGiveATextWithoutEndOrControlCharacters) {
  std::mt19937 random(7);
  int taken = 0;
  for (int round = 0; round < 20000; ++round) {
    Frame frame = make_frame(FrameKind::failed, round % max_ranks);
    unsigned char bytes[sizeof frame];
    std::memcpy(bytes, &frame, sizeof frame);
    for (std::size_t i = round % 4 == 0 ? 0 : offsetof(Frame, secret); i < sizeof bytes; ++i)
      bytes[i] = static_cast<unsigned char>(random());
    const std::optional<Frame> read = parse_frame(bytes, sizeof bytes);
    if (!read) continue;
    ++taken;
    const std::size_t length = ::strnlen(read->text, sizeof read->text);
    ASSERT_LT(length, sizeof read->text);
    for (std::size_t i = 0; i < length; ++i) ASSERT_TRUE(read->text[i] >= ' ' && read->text[i] <= '~');
  }
  EXPECT_GE(taken, 15000);
}

TEST(WatchFrame, ALongTextIsCutWithAnEnd) {
  const Frame frame = make_frame(FrameKind::failed, 0, std::string(1000, 'x'));
  EXPECT_EQ(std::strlen(frame.text), sizeof frame.text - 1);
}

}  // namespace
}  // namespace busbw::gpu

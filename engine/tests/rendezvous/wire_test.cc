// Frames and messages: any cut of the stream gives the same frames, and no bytes whatever do harm.
#include "engine/rendezvous/net/wire.h"

#include <gtest/gtest.h>

#include <random>

#include "engine/rendezvous/join/handshake.h"

namespace busbw {
namespace {

const Member somebody{.protocol = 1,
                      .version = "0.1.0",
                      .process = 3,
                      .processes = 8,
                      .pid = 4711,
                      .host = "node7",
                      .host_identity = "boot node7"};

TEST(FrameReader, GivesTheSameFramesHoweverTheStreamIsCut) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::string stream;
    std::vector<std::string> bodies;
    for (int i = 0; i < 10; ++i) {
      bodies.emplace_back(random() % 300, static_cast<char>(random()));
      stream += encode(FrameKind::result, bodies.back());
    }
    FrameReader reader(300);
    std::vector<std::string> seen;
    for (std::size_t at = 0; at < stream.size();) {
      const std::size_t piece = 1 + random() % 400;
      reader.feed(std::string_view(stream).substr(at, piece));
      at += piece;
      while (const auto frame = reader.next()) seen.push_back(frame->body);
    }
    EXPECT_EQ(seen, bodies);
  }
}

TEST(FrameReader, RefusesAFrameAboveItsLimitBeforeItHasArrived) {
  FrameReader reader(100);
  reader.feed(encode(FrameKind::hello, std::string(101, 'x')).substr(0, frame_header_bytes));
  EXPECT_THROW(reader.next(), WireError);
}

TEST(FrameReader, RefusesTextOfAnotherProtocol) {
  for (const char* text : {"GET / HTTP/1.1\r\n\r\n", "SSH-2.0-OpenSSH_9\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc"}) {
    FrameReader reader(greeting_limit);
    reader.feed(std::string(text) + std::string(64, '\0'));
    EXPECT_THROW(reader.next(), WireError) << text;
  }
}

TEST(Messages, ComeBackAsTheyWere) {
  const Contribution contribution{
      .channel = 1, .call = 2, .sequence = 1ull << 40, .members = 9, .data = std::string("a\0b", 3)};
  const Contribution back = read_contribution(std::string_view(encode(contribution)).substr(frame_header_bytes));
  EXPECT_EQ(std::tie(back.channel, back.call, back.sequence, back.members, back.data),
            std::tie(contribution.channel, contribution.call, contribution.sequence, contribution.members,
                     contribution.data));
  const Failure failure{.process = -1, .code = ExitCode::bad_arguments, .sentence = "so it is"};
  const Failure told = read_failure(std::string_view(encode(failure)).substr(frame_header_bytes));
  EXPECT_EQ(std::tie(told.process, told.code, told.sentence),
            std::tie(failure.process, failure.code, failure.sentence));
  EXPECT_EQ(read_start(std::string_view(encode_start({somebody, somebody})).substr(frame_header_bytes)),
            (std::vector<Member>{somebody, somebody}));
}

// Every truncation and many random changes of a message either read as a message or raise WireError, nothing else.
template <typename Read>
void expect_harmless(const std::string& body, const Read& read) {
  std::mt19937 random(11);
  const auto attempt = [&](const std::string& bytes) {
    try {
      read(bytes);
    } catch (const WireError&) {
    }
  };
  for (std::size_t length = 0; length < body.size(); ++length) {
    EXPECT_THROW(read(body.substr(0, length)), WireError) << length;
  }
  for (int round = 0; round < 5000; ++round) {
    std::string changed = body;
    for (int change = 0; change < 3; ++change) changed[random() % changed.size()] = static_cast<char>(random());
    attempt(changed);
  }
}

TEST(Messages, SurviveTruncationAndRandomBytes) {
  const auto body = [](const std::string& frame) { return frame.substr(frame_header_bytes); };
  expect_harmless(body(encode(Contribution{.channel = 0, .call = 1, .sequence = 2, .members = 3, .data = "data"})),
                  [](const std::string& b) { read_contribution(b); });
  expect_harmless(body(encode(Result{.channel = 0, .sequence = 1, .parts = {"one", "two"}})),
                  [](const std::string& b) { read_result(b); });
  expect_harmless(body(encode(Failure{.process = 1, .code = ExitCode::cuda, .sentence = "why"})),
                  [](const std::string& b) { read_failure(b); });
  expect_harmless(body(encode_start({somebody})), [](const std::string& b) { read_start(b); });
  expect_harmless(body(encode_hello(std::string(nonce_bytes, 'n'))), [](const std::string& b) { read_hello(b); });
}

TEST(Proof, HoldsForTheRightSecretAndBothNoncesOnly) {
  const std::string newcomer(nonce_bytes, 'a'), hub(nonce_bytes, 'b');
  const std::string body = encode_proof("secret", newcomer, hub, somebody).substr(frame_header_bytes);
  EXPECT_EQ(read_proof("secret", newcomer, hub, body), somebody);
  EXPECT_THROW(read_proof("Secret", newcomer, hub, body), WireError);
  EXPECT_THROW(read_proof("secret", hub, newcomer, body), WireError);
  EXPECT_THROW(read_proof("secret", newcomer, std::string(nonce_bytes, 'c'), body), WireError);
  for (std::size_t at = 0; at < body.size(); ++at) {
    std::string forged = body;
    forged[at] = static_cast<char>(forged[at] ^ 1);
    EXPECT_THROW(read_proof("secret", newcomer, hub, forged), WireError) << at;
  }
}

}  // namespace
}  // namespace busbw

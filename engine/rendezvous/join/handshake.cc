// The mutual proof of the job's secret: HMAC-SHA-256 over both nonces, with a label per direction so that neither side
// can be made to answer the other's challenge.
#include "engine/rendezvous/join/handshake.h"

#include <poll.h>

#include <algorithm>
#include <array>

#include "engine/rendezvous/limits.h"

namespace busbw {
namespace {

Digest prove(std::string_view secret, std::string_view label, std::string_view newcomer_nonce,
             std::string_view hub_nonce, std::string_view introduction) {
  BodyWriter writer;
  writer.text(label).text(newcomer_nonce).text(hub_nonce).text(introduction);
  return hmac_sha256(secret, writer.take());
}

std::string read_nonce(BodyReader& reader) {
  std::string nonce(reader.text());
  if (nonce.size() != nonce_bytes) throw WireError("a nonce of the wrong length");
  return nonce;
}

}  // namespace

std::string encode_hello(std::string_view nonce) {
  return encode(FrameKind::hello, BodyWriter().text(magic).text(nonce).take());
}

std::string read_hello(std::string_view body) {
  BodyReader reader(body);
  if (reader.text() != magic) throw WireError("a greeting that is not of busbw");
  std::string nonce = read_nonce(reader);
  reader.expect_end();
  return nonce;
}

std::string encode_challenge(std::string_view secret, std::string_view newcomer_nonce, std::string_view hub_nonce) {
  return encode(FrameKind::challenge, BodyWriter()
                                          .text(magic)
                                          .text(hub_nonce)
                                          .digest(prove(secret, "process 0", newcomer_nonce, hub_nonce, ""))
                                          .take());
}

Challenge read_challenge(std::string_view body) {
  BodyReader reader(body);
  if (reader.text() != magic) throw WireError("a challenge that is not of busbw");
  Challenge challenge{.nonce = read_nonce(reader), .proof = reader.digest()};
  reader.expect_end();
  return challenge;
}

std::string encode_proof(std::string_view secret, std::string_view newcomer_nonce, std::string_view hub_nonce,
                         const Member& member) {
  BodyWriter introduction;
  write_member(introduction, member);
  const std::string text = introduction.take();
  const Digest digest = prove(secret, "newcomer", newcomer_nonce, hub_nonce, text);
  return encode(FrameKind::proof, BodyWriter().text(text).digest(digest).take());
}

Member read_proof(std::string_view secret, std::string_view newcomer_nonce, std::string_view hub_nonce,
                  std::string_view body) {
  BodyReader reader(body);
  const std::string_view introduction = reader.text();
  const Digest digest = reader.digest();
  reader.expect_end();
  if (!equal_in_constant_time(digest, prove(secret, "newcomer", newcomer_nonce, hub_nonce, introduction))) {
    throw SecretError("a caller that does not know this job's secret");
  }
  BodyReader fields(introduction);
  return read_member(fields);
}

std::optional<Frame> wait_frame(const FileDescriptor& socket, FrameReader& reader, Clock::time_point deadline,
                                const BetweenLooks& between) {
  std::array<char, 65536> buffer;
  for (;;) {
    if (auto frame = reader.next()) return frame;
    const auto until = between ? std::min(deadline, Clock::now() + heartbeat_interval) : deadline;
    if (!wait_ready(socket, POLLIN, until)) {
      if (between) between();
      if (Clock::now() >= deadline) return std::nullopt;
      continue;
    }
    const long count = read_some(socket, buffer.data(), buffer.size());
    if (count == 0) throw WireError("a connection that closed");
    if (count > 0) reader.feed({buffer.data(), static_cast<std::size_t>(count)});
  }
}

bool send_all(const FileDescriptor& socket, std::string_view data, Clock::time_point deadline) {
  while (!data.empty()) {
    if (!wait_ready(socket, POLLOUT, deadline)) return false;
    const long count = write_some(socket, data);
    if (count < 0) return false;
    data.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

Knock knock(const FileDescriptor& socket, FrameReader& reader, std::string_view secret, const Member& member,
            Clock::time_point deadline, std::string& why, const BetweenLooks& between) {
  try {
    const std::string nonce = random_bytes(nonce_bytes);
    if (!send_all(socket, encode_hello(nonce), deadline)) throw WireError("a connection that closed");
    const auto frame = wait_frame(socket, reader, deadline, between);
    if (!frame || frame->kind != FrameKind::challenge) throw WireError("something that is not busbw");
    const Challenge challenge = read_challenge(frame->body);
    if (!equal_in_constant_time(challenge.proof, prove(secret, "process 0", nonce, challenge.nonce, ""))) {
      throw WireError("a busbw that does not know this job's secret (another job, or a different BUSBW_SECRET)");
    }
    const std::string proof = encode_proof(secret, nonce, challenge.nonce, member);
    if (!send_all(socket, proof, deadline)) throw WireError("a connection that closed");
    return Knock::welcome;
  } catch (const WireError& error) {
    why = error.what();
    return Knock::stranger;
  }
}

}  // namespace busbw

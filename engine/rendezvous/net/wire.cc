// Encodes and decodes frames and messages; checks every length before it believes it.
#include "engine/rendezvous/net/wire.h"

#include <algorithm>
#include <cstring>

namespace busbw {

std::string encode(FrameKind kind, std::string_view body) {
  std::string frame;
  frame.reserve(frame_header_bytes + body.size());
  for (int byte = 0; byte < 4; ++byte) frame += static_cast<char>(body.size() >> (8 * byte));
  frame += static_cast<char>(kind);
  frame += body;
  return frame;
}

void FrameReader::feed(std::string_view data) {
  if (used_ > 0) {
    pending_.erase(0, used_);
    used_ = 0;
  }
  pending_ += data;
}

std::optional<Frame> FrameReader::next() {
  const std::string_view rest = std::string_view(pending_).substr(used_);
  if (rest.size() < frame_header_bytes) return std::nullopt;
  BodyReader header(rest);
  const std::size_t length = header.number(4);
  const std::uint64_t kind = header.number(1);
  if (kind < 1 || kind > static_cast<std::uint64_t>(FrameKind::all_left)) throw WireError("a frame of no known kind");
  if (length > limit_) throw WireError("a frame above its limit");
  if (rest.size() < frame_header_bytes + length) return std::nullopt;
  used_ += frame_header_bytes + length;
  return Frame{static_cast<FrameKind>(kind), std::string(rest.substr(frame_header_bytes, length))};
}

BodyWriter& BodyWriter::number(std::uint64_t value, int bytes) {
  for (int byte = 0; byte < bytes; ++byte) body_ += static_cast<char>(value >> (8 * byte));
  return *this;
}

BodyWriter& BodyWriter::text(std::string_view value) {
  number(value.size(), 4);
  body_ += value;
  return *this;
}

BodyWriter& BodyWriter::digest(const Digest& value) {
  body_.append(reinterpret_cast<const char*>(value.data()), value.size());
  return *this;
}

std::string_view BodyReader::take(std::size_t bytes) {
  if (bytes > rest_.size()) throw WireError("a message that ends too early");
  const std::string_view taken = rest_.substr(0, bytes);
  rest_.remove_prefix(bytes);
  return taken;
}

std::uint64_t BodyReader::number(int bytes) {
  std::uint64_t value = 0;
  const std::string_view raw = take(static_cast<std::size_t>(bytes));
  for (int byte = 0; byte < bytes; ++byte) value |= std::uint64_t{static_cast<unsigned char>(raw[byte])} << (8 * byte);
  return value;
}

std::string_view BodyReader::text() { return take(number(4)); }

Digest BodyReader::digest() {
  Digest value;
  std::memcpy(value.data(), take(value.size()).data(), value.size());
  return value;
}

void BodyReader::expect_end() const {
  if (!rest_.empty()) throw WireError("a message with more than it should hold");
}

std::string describe(const Member& member) {
  return format("process %d (pid %ld on host %s)", member.process, member.pid, member.host.c_str());
}

void write_member(BodyWriter& writer, const Member& member) {
  writer.number(member.protocol, 2).text(member.version);
  writer.number(static_cast<std::uint32_t>(member.process), 4).number(static_cast<std::uint32_t>(member.processes), 4);
  writer.number(static_cast<std::uint64_t>(member.pid), 8).text(member.host).text(member.host_identity);
}

Member read_member(BodyReader& reader) {
  Member member;
  member.protocol = static_cast<std::uint16_t>(reader.number(2));
  member.version = reader.text();
  member.process = static_cast<int>(reader.number(4));
  member.processes = static_cast<int>(reader.number(4));
  member.pid = static_cast<long>(reader.number(8));
  member.host = reader.text();
  member.host_identity = reader.text();
  return member;
}

std::string encode(const Contribution& contribution) {
  BodyWriter writer;
  writer.number(contribution.channel, 1).number(contribution.call, 1).number(contribution.sequence, 8);
  writer.number(contribution.members, 4).text(contribution.data);
  return encode(FrameKind::contribution, writer.take());
}

Contribution read_contribution(std::string_view body) {
  BodyReader reader(body);
  Contribution contribution;
  contribution.channel = static_cast<std::uint8_t>(reader.number(1));
  contribution.call = static_cast<std::uint8_t>(reader.number(1));
  contribution.sequence = reader.number(8);
  contribution.members = static_cast<std::uint32_t>(reader.number(4));
  contribution.data = reader.text();
  reader.expect_end();
  return contribution;
}

std::string encode(const Result& result) {
  BodyWriter writer;
  writer.number(result.channel, 1).number(result.sequence, 8).number(result.parts.size(), 4);
  for (const std::string& part : result.parts) writer.text(part);
  return encode(FrameKind::result, writer.take());
}

Result read_result(std::string_view body) {
  BodyReader reader(body);
  Result result;
  result.channel = static_cast<std::uint8_t>(reader.number(1));
  result.sequence = reader.number(8);
  for (std::uint64_t left = reader.number(4); left > 0; --left) result.parts.emplace_back(reader.text());
  reader.expect_end();
  return result;
}

std::string encode(const Failure& failure) {
  BodyWriter writer;
  writer.number(static_cast<std::uint32_t>(failure.process), 4).number(static_cast<std::uint32_t>(failure.code), 4);
  writer.text(std::string_view(failure.sentence).substr(0, greeting_limit / 2));
  return encode(FrameKind::failure, writer.take());
}

Failure read_failure(std::string_view body) {
  BodyReader reader(body);
  Failure failure;
  failure.process = static_cast<int>(reader.number(4));
  failure.code = static_cast<ExitCode>(reader.number(4));
  failure.sentence = reader.text();
  reader.expect_end();
  return failure;
}

std::string encode_start(const std::vector<Member>& members) {
  BodyWriter writer;
  writer.number(members.size(), 4);
  for (const Member& member : members) write_member(writer, member);
  return encode(FrameKind::start, writer.take());
}

std::vector<Member> read_start(std::string_view body) {
  BodyReader reader(body);
  std::vector<Member> members;
  for (std::uint64_t left = reader.number(4); left > 0; --left) members.push_back(read_member(reader));
  reader.expect_end();
  return members;
}

}  // namespace busbw

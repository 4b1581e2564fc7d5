// What goes over a connection: frames of a length, a kind and a body, and the messages in their bodies.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/sha256.h"
#include "engine/rendezvous/rendezvous.h"

namespace busbw {

// Raised by a frame or body that no process of this job can have sent.
struct WireError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Raised where a caller speaks as it should and does not know the job's secret.
struct SecretError : WireError {
  using WireError::WireError;
};

// The handshake (hello to refusal) keeps its layout in every protocol version, so that different versions can tell
// each other so; everything after it belongs to the protocol version.
inline constexpr std::uint16_t protocol_version = 1;
inline constexpr std::string_view magic = "busbw-rendezvous";

enum class FrameKind : std::uint8_t {
  hello = 1,     // newcomer: magic, nonce
  challenge,     // process 0: nonce, proof that it knows the secret
  proof,         // newcomer: who it is, proof that it knows the secret
  refusal,       // process 0: why not
  start,         // process 0: all have come, and who they are
  heartbeat,     // both ways, each second
  contribution,  // a process's part of a collective call
  result,        // all parts
  failure,       // a process failed; process 0 passes it on
  leave,         // a process is done
  all_left,      // process 0: every process is done, or process 0 ends in order
};

inline constexpr std::size_t frame_header_bytes = 5;
inline constexpr std::size_t greeting_limit = 4096;           // before a newcomer has proved itself
inline constexpr std::size_t contribution_limit = 16u << 20;  // as rendezvous.h promises
inline constexpr std::size_t member_limit = contribution_limit + 4096;
inline constexpr std::size_t result_limit = 1u << 30;

struct Frame {
  FrameKind kind = FrameKind::heartbeat;
  std::string body;
};

std::string encode(FrameKind kind, std::string_view body = {});

// Cuts a stream into frames, whatever pieces it arrives in. Throws WireError for a frame above the limit or of no kind.
class FrameReader {
 public:
  explicit FrameReader(std::size_t body_limit) : limit_(body_limit) {}
  void set_limit(std::size_t body_limit) { limit_ = body_limit; }
  void feed(std::string_view data);
  std::optional<Frame> next();

 private:
  std::string pending_;
  std::size_t used_ = 0;
  std::size_t limit_;
};

// Numbers little-endian, texts with their length in front.
class BodyWriter {
 public:
  BodyWriter& number(std::uint64_t value, int bytes);
  BodyWriter& text(std::string_view value);
  BodyWriter& digest(const Digest& value);
  std::string take() { return std::move(body_); }

 private:
  std::string body_;
};

// Throws WireError where the body ends too early.
class BodyReader {
 public:
  explicit BodyReader(std::string_view body) : rest_(body) {}
  std::uint64_t number(int bytes);
  std::string_view text();
  Digest digest();
  void expect_end() const;

 private:
  std::string_view take(std::size_t bytes);
  std::string_view rest_;
};

// One process of the job, as it introduces itself.
struct Member {
  std::uint16_t protocol = protocol_version;
  std::string version;
  int process = 0;
  int processes = 1;
  long pid = 0;
  std::string host;
  std::string host_identity;  // equal where two processes share memory: boot, host name, IPC namespace, /dev/shm
  friend bool operator==(const Member&, const Member&) = default;
};
std::string describe(const Member& member);  // "process 2 (pid 123 on host H)"

void write_member(BodyWriter& writer, const Member& member);
Member read_member(BodyReader& reader);

struct Contribution {
  std::uint8_t channel = 0;    // calls of all processes, or of one process per host
  std::uint8_t call = 0;       // which call of Rendezvous, so that a mix-up of calls is named
  std::uint64_t sequence = 0;  // of the channel
  std::uint32_t members = 0;   // how many contribute
  std::string data;
};
std::string encode(const Contribution& contribution);
Contribution read_contribution(std::string_view body);

struct Result {
  std::uint8_t channel = 0;
  std::uint64_t sequence = 0;
  std::vector<std::string> parts;  // in the order of their processes
};
std::string encode(const Result& result);
Result read_result(std::string_view body);

std::string encode(const Failure& failure);
Failure read_failure(std::string_view body);

std::string encode_start(const std::vector<Member>& members);
std::vector<Member> read_start(std::string_view body);

}  // namespace busbw

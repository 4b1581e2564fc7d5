// How a newcomer and process 0 prove to each other that they know the job's secret, without sending it.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "engine/rendezvous/net/socket.h"
#include "engine/rendezvous/net/wire.h"

namespace busbw {

inline constexpr std::size_t nonce_bytes = 16;

struct Challenge {
  std::string nonce;
  Digest proof;  // of process 0
};
struct Proof {
  Member member;
  Digest proof;  // of the newcomer, over its introduction too
};

std::string encode_hello(std::string_view nonce);
std::string read_hello(std::string_view body);  // the nonce; throws WireError for anything else
std::string encode_challenge(std::string_view secret, std::string_view newcomer_nonce, std::string_view hub_nonce);
std::string encode_proof(std::string_view secret, std::string_view newcomer_nonce, std::string_view hub_nonce,
                         const Member& member);
Challenge read_challenge(std::string_view body);
// Throws WireError when the newcomer does not know the secret.
Member read_proof(std::string_view secret, std::string_view newcomer_nonce, std::string_view hub_nonce,
                  std::string_view body);

enum class Knock { welcome, stranger };

// Called each heartbeat during a wait; may throw to end it.
using BetweenLooks = std::function<void()>;

// The newcomer's half, up to its proof; the answer (start, refusal or failure) is the next frame. `why` says what kind
// of stranger answered.
Knock knock(const FileDescriptor& socket, FrameReader& reader, std::string_view secret, const Member& member,
            Clock::time_point deadline, std::string& why, const BetweenLooks& between = {});

// The next frame, or nothing at the deadline. Throws WireError for garbage and when the connection closes.
std::optional<Frame> wait_frame(const FileDescriptor& socket, FrameReader& reader, Clock::time_point deadline,
                                const BetweenLooks& between = {});
bool send_all(const FileDescriptor& socket, std::string_view data, Clock::time_point deadline);

}  // namespace busbw

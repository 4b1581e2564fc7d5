// File descriptors from one rank's process to another's: a local datagram socket of each rank, whose name and secret
// the ranks tell each other beforehand.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "library/common/descriptor.h"
#include "library/gpu/watch/watch_frame.h"

namespace busbw::gpu {

struct PostAddress {
  std::uint64_t name;
  WatchSecret secret;
};

class DescriptorPost {
 public:
  // Throws a Failure, as the others do.
  DescriptorPost();

  const PostAddress& address() const { return address_; }
  // Never blocks: a rank has fewer peers than a socket's queue has places.
  void send(const PostAddress& to, int own_rank, const Descriptor& descriptor) const;
  // Up to `most` descriptors, and what they are about. False where the peer's queue is full just now. A peer that is
  // gone gets nothing, and needs nothing.
  static constexpr std::size_t most = 64;
  bool offer(const PostAddress& to, int own_rank, std::uint64_t about,
             const std::vector<Descriptor>& descriptors) const;

  struct Letter {
    int rank;
    std::uint64_t about;
    std::vector<Descriptor> descriptors;  // one or more
  };
  // The next one; whatever does not know the secret or comes from another user is left out.
  Letter receive(std::chrono::steady_clock::time_point deadline) const;
  // The next one if it is there.
  std::optional<Letter> take() const;

 private:
  PostAddress address_{};
  Descriptor socket_;
};

}  // namespace busbw::gpu

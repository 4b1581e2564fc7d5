// File descriptors from one rank's process to another's: a local datagram socket of each rank, whose name and secret
// the ranks tell each other beforehand.
#pragma once

#include <chrono>
#include <cstdint>

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

  struct Letter {
    int rank;
    Descriptor descriptor;
  };
  // The next one; whatever does not know the secret or comes from another user is left out.
  Letter receive(std::chrono::steady_clock::time_point deadline) const;

 private:
  PostAddress address_{};
  Descriptor socket_;
};

}  // namespace busbw::gpu

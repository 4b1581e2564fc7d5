// A file descriptor that closes itself.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

namespace busbw {

class Descriptor {
 public:
  explicit Descriptor(int descriptor = -1) : descriptor_(descriptor) {}
  ~Descriptor() {
    if (valid()) ::close(descriptor_);
  }
  Descriptor(Descriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  // What it held before goes with `other`: a temporary closes it at once.
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  bool valid() const { return descriptor_ >= 0; }
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

// Asked before a file, or memory that processes share, gets so long: beyond the limit of file sizes (ulimit -f) the
// system sends a signal that would end the program.
inline bool may_be_so_long(std::uint64_t bytes) {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur;
}

}  // namespace busbw

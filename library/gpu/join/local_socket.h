// Names of local sockets between the ranks of a host.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "library/common/failure.h"

namespace busbw::gpu {

// "busbw-PURPOSE-NUMBER" in the abstract namespace: no file is left behind by whoever dies. Returns the address' size.
inline socklen_t local_socket_address(const char* purpose, std::uint64_t number, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  const std::string path = text("busbw-%s-%016llx", purpose, static_cast<unsigned long long>(number));
  std::memcpy(address.sun_path + 1, path.data(), path.size());
  return socklen_t(offsetof(sockaddr_un, sun_path) + 1 + path.size());
}

}  // namespace busbw::gpu

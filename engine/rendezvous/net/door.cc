// Abstract Unix sockets.
#include "engine/rendezvous/net/door.h"

#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

namespace busbw {
namespace {

constexpr int waiting_callers = 1024;

struct DoorAddress {
  sockaddr_un address{};
  socklen_t length;

  DoorAddress(const std::string& name, int place) {
    const std::string text = name + "." + std::to_string(place);
    address.sun_family = AF_UNIX;
    const std::size_t bytes = std::min(text.size(), sizeof address.sun_path - 1);
    std::memcpy(address.sun_path + 1, text.data(), bytes);  // a first zero byte: in no file system
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + bytes);
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

FileDescriptor unix_socket() { return FileDescriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)); }

}  // namespace

FileDescriptor listen_at_door(const std::string& name) {
  for (int place = 0; place < door_places; ++place) {
    const DoorAddress at(name, place);
    FileDescriptor door = unix_socket();
    if (door.open() && bind(door.get(), at.get(), at.length) == 0 && listen(door.get(), waiting_callers) == 0)
      return door;
  }
  return {};
}

FileDescriptor connect_to_door(const std::string& name, int place) {
  const DoorAddress at(name, place);
  FileDescriptor socket = unix_socket();
  // A full queue is EAGAIN: the next round comes again.
  if (!socket.open() || connect(socket.get(), at.get(), at.length) != 0 || of_another_user(socket)) return {};
  return socket;
}

bool of_another_user(const FileDescriptor& socket) {
  int domain = 0;
  socklen_t size = sizeof domain;
  if (getsockopt(socket.get(), SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 || domain != AF_UNIX) return false;
  ucred peer{};
  size = sizeof peer;
  return getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != geteuid();
}

}  // namespace busbw

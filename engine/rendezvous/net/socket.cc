// TCP sockets, owned and bounded.
#include "engine/rendezvous/net/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

namespace busbw {
namespace {

[[noreturn]] void socket_failed(const char* what) {
  const int error = errno;
  throw Error(ExitCode::internal,
              format("The rendezvous could not %s: %s%s", what, std::strerror(error), shortage_advice(error).c_str()));
}

void set_option(int socket, int level, int name, int value) { setsockopt(socket, level, name, &value, sizeof value); }

int port_of(int socket) {
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&bound), &length) != 0) return 0;
  if (bound.ss_family == AF_INET) return ntohs(reinterpret_cast<sockaddr_in*>(&bound)->sin_port);
  if (bound.ss_family == AF_INET6) return ntohs(reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port);
  return 0;
}

void set_port(SocketAddress& address, int port) {
  const auto number = htons(static_cast<std::uint16_t>(port));
  if (address.storage.ss_family == AF_INET) reinterpret_cast<sockaddr_in&>(address.storage).sin_port = number;
  if (address.storage.ss_family == AF_INET6) reinterpret_cast<sockaddr_in6&>(address.storage).sin6_port = number;
}

SocketAddress any_address(int family) {
  SocketAddress any;
  any.storage.ss_family = static_cast<sa_family_t>(family);
  any.length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  return any;
}

// Nothing, with errno set, when the address cannot be bound here.
FileDescriptor bind_and_listen(const SocketAddress& address) {
  FileDescriptor socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.open()) return {};
  set_option(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.storage.ss_family == AF_INET6) set_option(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.length) != 0 ||
      listen(socket.get(), 1024) != 0) {
    const int why = errno;
    socket.close();
    errno = why;
  }
  return socket;
}

// Where process 0 listens: the interface the user chose, exactly the address that was named as a number, or everywhere,
// because a name may resolve to something else here than on the other hosts (Debian maps its own name to 127.0.1.1).
std::vector<SocketAddress> listening_addresses(const std::string& host, const std::string& interface) {
  if (!interface.empty()) return interface_addresses(interface);
  std::vector<SocketAddress> addresses;
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string numeric = host == "localhost" ? "127.0.0.1" : host;
  if (!host.empty() && getaddrinfo(numeric.c_str(), nullptr, &hints, &found) == 0) {
    SocketAddress exact;
    std::memcpy(&exact.storage, found->ai_addr, found->ai_addrlen);
    exact.length = found->ai_addrlen;
    addresses.push_back(exact);
    freeaddrinfo(found);
  }
  // An address that is not one of this host (behind address translation) fails to bind; then listen everywhere.
  addresses.push_back(any_address(AF_INET6));
  addresses.push_back(any_address(AF_INET));
  return addresses;
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (number_ >= 0) ::close(number_);
}

bool is_shortage(int error) { return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS; }

std::string shortage_advice(int error) {
  if (error == EMFILE) return "; allow more of them: ulimit -n, or LimitNOFILE of a service";
  if (error == ENFILE) return "; this host has no more of them: sysctl fs.file-max, or end what holds many";
  if (error == ENOMEM || error == ENOBUFS)
    return "; free memory of this host, or look at ulimit -v and the job's limit";
  return "";
}

void throw_where_descriptors_are_short() {
  const FileDescriptor probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!probe.open() && is_shortage(errno)) socket_failed("open a socket");
}

bool SocketAddress::loopback() const {
  if (storage.ss_family == AF_INET) {
    return ntohl(reinterpret_cast<const sockaddr_in&>(storage).sin_addr.s_addr) >> 24 == 127;
  }
  return storage.ss_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr);
}

std::string SocketAddress::text() const {
  char name[NI_MAXHOST] = "";
  getnameinfo(reinterpret_cast<const sockaddr*>(&storage), length, name, sizeof name, nullptr, 0, NI_NUMERICHOST);
  return name;
}

std::vector<SocketAddress> resolve(const Endpoint& endpoint) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(endpoint.host.c_str(), nullptr, &hints, &found); error != 0) {
    throw Error(error == EAI_AGAIN ? ExitCode::timeout : ExitCode::bad_arguments,
                format("The host of process 0, '%s', cannot be resolved: %s; set BUSBW_ADDRESS=host:port",
                       endpoint.host.c_str(), gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (; found != nullptr; found = found->ai_next) {
    SocketAddress address;
    std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
    address.length = found->ai_addrlen;
    set_port(address, endpoint.port);
    addresses.push_back(address);
  }
  return addresses;
}

std::vector<SocketAddress> interface_addresses(const std::string& interface) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) socket_failed("list the network interfaces");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  std::vector<SocketAddress> addresses;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    SocketAddress address = any_address(family);
    std::memcpy(&address.storage, entry->ifa_addr, address.length);
    const bool link_local =
        family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<sockaddr_in6&>(address.storage).sin6_addr);
    if (interface.empty() ? !address.loopback() && !link_local : interface == entry->ifa_name && !link_local) {
      addresses.push_back(address);
    }
  }
  if (addresses.empty() && !interface.empty()) {
    throw Error(ExitCode::bad_arguments, format("BUSBW_INTERFACE is '%s', but no interface of that name is up with an "
                                                "address on this host; `ip address` lists them",
                                                interface.c_str()));
  }
  return addresses;
}

std::optional<Listener> listen_at(const std::string& host, int port, const std::string& interface) {
  bool in_use = false;
  for (SocketAddress& address : listening_addresses(host, interface)) {
    set_port(address, port);
    FileDescriptor socket = bind_and_listen(address);
    if (socket.open()) {
      const int bound = port_of(socket.get());
      return Listener{std::move(socket), bound};
    }
    in_use = in_use || errno == EADDRINUSE;
    if (errno == EACCES) {
      throw Error(ExitCode::bad_arguments,
                  format("Port %d may not be opened by this user; choose one above 1023", port));
    }
    if (in_use) return std::nullopt;
  }
  socket_failed(format("listen on port %d", port).c_str());
}

Listener inherited_listener(int descriptor) {
  int listening = 0;
  socklen_t length = sizeof listening;
  if (getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listening, &length) != 0 || listening == 0) {
    throw Error(ExitCode::bad_arguments,
                format("BUSBW_LISTEN_FD is %d, but that is no listening socket in this process; unset it", descriptor));
  }
  FileDescriptor socket(descriptor);
  fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK);
  return Listener{std::move(socket), port_of(descriptor)};
}

FileDescriptor connect_to(const SocketAddress& address, Clock::time_point deadline, std::string& why) {
  FileDescriptor socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.open()) socket_failed("open a socket");
  int error = 0;
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.length) != 0) {
    error = errno;
    if (error == EINPROGRESS) {
      socklen_t length = sizeof error;
      if (!wait_ready(socket, POLLOUT, deadline)) {
        error = ETIMEDOUT;
      } else if (getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) {
        error = errno;
      }
    }
  }
  if (error != 0) {
    why = std::strerror(error);
    return {};
  }
  prepare_stream(socket);
  return socket;
}

std::pair<FileDescriptor, FileDescriptor> socket_pair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0)
    socket_failed("open a socket pair");
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

FileDescriptor make_event() {
  FileDescriptor event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event.open()) socket_failed("open an event descriptor");
  return event;
}

void signal_event(const FileDescriptor& event) {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = write(event.get(), &one, sizeof one);
}

void clear_event(const FileDescriptor& event) {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto taken = read(event.get(), &count, sizeof count);
}

void prepare_stream(const FileDescriptor& socket) {
  set_option(socket.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket.get(), SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket.get(), IPPROTO_TCP, TCP_KEEPIDLE, 4);
  set_option(socket.get(), IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set_option(socket.get(), IPPROTO_TCP, TCP_KEEPCNT, 3);
  // Longer than the heartbeat's limit, whose sentence says more.
  set_option(socket.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, 8000);
}

bool wait_ready(const FileDescriptor& socket, short events, Clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd waiting{.fd = socket.get(), .events = events, .revents = 0};
    const int ready = poll(&waiting, 1, static_cast<int>(std::clamp<long>(left.count(), 0, 60'000)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return true;
    if (Clock::now() >= deadline) return false;
  }
}

long read_some(const FileDescriptor& socket, char* buffer, std::size_t size) {
  const ssize_t count = recv(socket.get(), buffer, size, 0);
  if (count >= 0) return count;
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? -1 : 0;
}

long write_some(const FileDescriptor& socket, std::string_view data) {
  const ssize_t count = send(socket.get(), data.data(), data.size(), MSG_NOSIGNAL);
  if (count >= 0) return count;
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -1;
}

std::string random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  if (getrandom(bytes.data(), count, 0) != static_cast<ssize_t>(count)) socket_failed("get random bytes");
  return bytes;
}

}  // namespace busbw

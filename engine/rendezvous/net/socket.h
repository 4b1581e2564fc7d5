// TCP sockets as the rendezvous needs them: owned, non-blocking, closed on exec, every wait bounded.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/rendezvous/join/environment.h"

namespace busbw {

using Clock = std::chrono::steady_clock;

// Owns one open file descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor();

  int get() const { return number_; }
  bool open() const { return number_ >= 0; }
  void close() { *this = Descriptor(); }

 private:
  int number_ = -1;
};

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  bool loopback() const;
  std::string text() const;  // "192.0.2.1" or "fd00::2", no port
};

// Throws Error naming the host when it cannot be resolved.
std::vector<SocketAddress> resolve(const Endpoint& endpoint);

// Addresses of the interfaces that are up: of one interface, or, for an empty name, of all but loopback.
std::vector<SocketAddress> interface_addresses(const std::string& interface);

struct Listener {
  Descriptor socket;
  int port = 0;
};

// Process 0's listening socket. An empty host listens on every address; port 0 takes any free one. Nothing when the
// port is in use; throws Error for anything else.
std::optional<Listener> listen_at(const std::string& host, int port, const std::string& interface);
Listener inherited_listener(int descriptor);

// Nothing, with the reason in `why`, when nobody answers there before the deadline.
Descriptor connect_to(const SocketAddress& address, Clock::time_point deadline, std::string& why);

// A pair of connected sockets within this process, and an event that wakes a poll.
std::pair<Descriptor, Descriptor> socket_pair();
Descriptor make_event();
void signal_event(const Descriptor& event);
void clear_event(const Descriptor& event);

// Small messages at once, and a vanished host noticed by the kernel too.
void prepare_stream(const Descriptor& socket);

// False at the deadline, true when ready or when the connection has an error to be read.
bool wait_ready(const Descriptor& socket, short events, Clock::time_point deadline);

// -1 nothing yet, 0 closed or broken, otherwise the bytes read.
long read_some(const Descriptor& socket, char* buffer, std::size_t size);
// -1 broken, otherwise the bytes the kernel took. Never raises SIGPIPE.
long write_some(const Descriptor& socket, std::string_view data);

std::string random_bytes(std::size_t count);

}  // namespace busbw

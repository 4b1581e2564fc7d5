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
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int number) : number_(number) {}
  FileDescriptor(FileDescriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~FileDescriptor();

  int get() const { return number_; }
  bool open() const { return number_ >= 0; }
  void close() { *this = FileDescriptor(); }

 private:
  int number_ = -1;
};

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  bool loopback() const;
  std::string text() const;  // "192.0.2.1" or "fd00::2", no port
};

// Whether an error number says that descriptors, or memory for one, have run out, and what to do about it (a part of a
// sentence; empty for any other error).
bool is_shortage(int error);
std::string shortage_advice(int error);
// Throws Error where this process can open no further descriptor: who looks for process 0 then finds nobody, ever.
void throw_where_descriptors_are_short();

// Throws Error naming the host when it cannot be resolved: `timeout` where asking again may help, else `bad_arguments`.
std::vector<SocketAddress> resolve(const Endpoint& endpoint);

// Addresses of the interfaces that are up: of one interface, or, for an empty name, of all but loopback.
std::vector<SocketAddress> interface_addresses(const std::string& interface);

struct Listener {
  FileDescriptor socket;
  int port = 0;
};

// Process 0's listening socket. An empty host listens on every address; port 0 takes any free one. Nothing when the
// port is in use; throws Error for anything else.
std::optional<Listener> listen_at(const std::string& host, int port, const std::string& interface);
Listener inherited_listener(int descriptor);

// Nothing, with the reason in `why`, when nobody answers there before the deadline.
FileDescriptor connect_to(const SocketAddress& address, Clock::time_point deadline, std::string& why);

// A pair of connected sockets within this process, and an event that wakes a poll.
std::pair<FileDescriptor, FileDescriptor> socket_pair();
FileDescriptor make_event();
void signal_event(const FileDescriptor& event);
void clear_event(const FileDescriptor& event);

// Small messages at once, and a vanished host noticed by the kernel too.
void prepare_stream(const FileDescriptor& socket);

// False at the deadline, true when ready or when the connection has an error to be read.
bool wait_ready(const FileDescriptor& socket, short events, Clock::time_point deadline);

// -1 nothing yet, 0 closed or broken, otherwise the bytes read.
long read_some(const FileDescriptor& socket, char* buffer, std::size_t size);
// -1 broken, otherwise the bytes the kernel took. Never raises SIGPIPE.
long write_some(const FileDescriptor& socket, std::string_view data);

std::string random_bytes(std::size_t count);

}  // namespace busbw

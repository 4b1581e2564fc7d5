// One byte each way over a Unix socket.
#include "engine/rendezvous/host/turns.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "engine/core/error.h"

namespace busbw {
namespace {

constexpr long most_players = 64;

[[noreturn]] void refuse(const std::string& setting, const std::string& why) {
  throw Error(ExitCode::bad_arguments, "BUSBW_TURNS is '" + setting + "', but " + why +
                                           "; leave it to `busbw COLLECTIVE --library A --library B`");
}

}  // namespace

std::unique_ptr<Turns> Turns::join(const char* setting) {
  if (setting == nullptr) return nullptr;
  char* rest = nullptr;
  const long players = std::strtol(setting, &rest, 10);
  if (players < 1 || players > most_players || *rest != ' ')
    refuse(setting, format("it takes a number of engines up to %ld, a blank and the path of a socket", most_players));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = rest + 1;
  if (path.empty() || path.size() >= sizeof address.sun_path) refuse(setting, "no socket can have that path");
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const bool abstract = path.front() == '@';  // in no file system
  if (abstract) address.sun_path[0] = '\0';
  const std::size_t size = abstract ? offsetof(sockaddr_un, sun_path) + path.size() : sizeof address;
  std::unique_ptr<Turns> turns(new Turns(static_cast<int>(players), ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)));
  if (::connect(turns->socket_, reinterpret_cast<const sockaddr*>(&address), static_cast<socklen_t>(size)) != 0)
    refuse(setting, std::string("nobody answers there (") + std::strerror(errno) + ")");
  return turns;
}

Turns::~Turns() {
  if (socket_ >= 0) ::close(socket_);
}

bool Turns::take(bool cycle_begins, const std::function<void()>& check) {
  constexpr const char* gone = "the command that hands out turns between libraries has ended";
  constexpr int between_checks_ms = 50;
  if (::send(socket_, cycle_begins ? "c" : "r", 1, MSG_NOSIGNAL) != 1) throw Error(ExitCode::interrupted, gone);
  pollfd watched{socket_, POLLIN, 0};
  while (::poll(&watched, 1, between_checks_ms) <= 0) check();
  char turn = 0;
  if (::recv(socket_, &turn, 1, 0) != 1) throw Error(ExitCode::interrupted, gone);
  return turn == 'g';
}

}  // namespace busbw

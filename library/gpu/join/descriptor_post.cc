// Datagrams with file descriptors.
#include "library/gpu/join/descriptor_post.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "library/common/failure.h"
#include "library/common/process.h"
#include "library/gpu/join/local_socket.h"

namespace busbw::gpu {
namespace {

using std::chrono::steady_clock;

struct Words {
  WatchSecret secret;
  std::uint64_t about;
  std::int32_t rank;
  std::int32_t reserved;
};

Failure system_failure(const char* what) {
  return Failure(ncclSystemError,
                 text("passing memory of a window between ranks: %s failed with %s", what, std::strerror(errno)));
}

// Room for the descriptors and for who has sent them, as the kernel says.
struct Ancillary {
  alignas(cmsghdr) char bytes[CMSG_SPACE(DescriptorPost::most * sizeof(int)) + CMSG_SPACE(sizeof(ucred))];
};

// What came with a message. Descriptors close themselves, whoever has sent them.
struct Enclosed {
  std::vector<Descriptor> descriptors;
  uid_t user = uid_t(-1);
};

Enclosed open_letter(msghdr& message) {
  Enclosed enclosed;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET) continue;
    if (part->cmsg_type == SCM_RIGHTS) {
      for (std::size_t at = 0; CMSG_LEN(at + sizeof(int)) <= part->cmsg_len; at += sizeof(int)) {
        int file = -1;
        std::memcpy(&file, CMSG_DATA(part) + at, sizeof file);
        enclosed.descriptors.emplace_back(file);
      }
    } else if (part->cmsg_type == SCM_CREDENTIALS) {
      ucred sender{};
      std::memcpy(&sender, CMSG_DATA(part), sizeof sender);
      enclosed.user = sender.uid;
    }
  }
  return enclosed;
}

}  // namespace

DescriptorPost::DescriptorPost() : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  if (!socket_.valid()) throw system_failure("socket");
  fill_random(&address_.name, sizeof address_.name);
  fill_random(address_.secret.data(), address_.secret.size());
  const int on = 1;
  sockaddr_un address{};
  const socklen_t size = local_socket_address("gpu-post", address_.name, address);
  if (::setsockopt(socket_.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0 ||
      ::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    throw system_failure("binding a local socket");
  }
}

bool DescriptorPost::offer(const PostAddress& to, int own_rank, std::uint64_t about,
                           const std::vector<Descriptor>& descriptors) const {
  if (descriptors.empty() || descriptors.size() > most) throw Failure(ncclInternalError, "a letter without a content");
  Words words{.secret = to.secret, .about = about, .rank = own_rank, .reserved = 0};
  iovec part{.iov_base = &words, .iov_len = sizeof words};
  sockaddr_un address{};
  const socklen_t size = local_socket_address("gpu-post", to.name, address);
  Ancillary ancillary{};
  msghdr message{};
  message.msg_name = &address;
  message.msg_namelen = size;
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = ancillary.bytes;
  message.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
  for (std::size_t i = 0; i < descriptors.size(); ++i) {
    const int file = descriptors[i].get();
    std::memcpy(CMSG_DATA(header) + i * sizeof file, &file, sizeof file);
  }
  if (::sendmsg(socket_.get(), &message, MSG_NOSIGNAL) == ssize_t(sizeof words)) return true;
  // Too many descriptors may be under way as well.
  if (errno == EAGAIN || errno == EINTR || errno == ENOBUFS || errno == ETOOMANYREFS) return false;
  throw system_failure("sendmsg");
}

void DescriptorPost::send(const PostAddress& to, int own_rank, const Descriptor& descriptor) const {
  std::vector<Descriptor> one;
  one.emplace_back(::fcntl(descriptor.get(), F_DUPFD_CLOEXEC, 0));
  if (!one.front().valid()) throw system_failure("fcntl");
  if (!offer(to, own_rank, 0, one)) throw system_failure("sendmsg");
}

std::optional<DescriptorPost::Letter> DescriptorPost::take() const {
  for (;;) {
    Words words{};
    iovec part{.iov_base = &words, .iov_len = sizeof words};
    Ancillary ancillary{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = ancillary.bytes;
    message.msg_controllen = sizeof ancillary.bytes;
    const ssize_t got = ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return std::nullopt;
    if (got < 0) throw system_failure("recvmsg");
    Enclosed enclosed = open_letter(message);
    // What does not fit into the room was closed by the kernel.
    if (got != ssize_t(sizeof words) || words.secret != address_.secret || enclosed.user != ::geteuid() ||
        enclosed.descriptors.empty() || (message.msg_flags & MSG_CTRUNC)) {
      continue;
    }
    return Letter{words.rank, words.about, std::move(enclosed.descriptors)};
  }
}

DescriptorPost::Letter DescriptorPost::receive(steady_clock::time_point deadline) const {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now()).count();
    pollfd ready{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    if (left <= 0) throw Failure(ncclSystemError, "a peer did not send the memory of its window in time");
    if (::poll(&ready, 1, int(left)) < 0 && errno != EINTR) throw system_failure("poll");
    if (auto letter = take()) return std::move(*letter);
  }
}

}  // namespace busbw::gpu

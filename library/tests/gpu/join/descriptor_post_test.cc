// Descriptors that travel between ranks: the right one arrives, and no other stays open, whoever sent it.
#include "library/gpu/join/descriptor_post.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <vector>

#include "library/common/failure.h"
#include "library/gpu/join/local_socket.h"

namespace busbw::gpu {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

std::ptrdiff_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

struct Words {
  WatchSecret secret;
  std::int32_t rank;
};

// As a rank's letter, with any number of descriptors of /dev/null and any secret.
void post(const PostAddress& to, const WatchSecret& secret, int count) {
  const Descriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const Descriptor null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const std::vector<int> files(std::size_t(count), null.get());
  Words words{.secret = secret, .rank = 3};
  iovec part{.iov_base = &words, .iov_len = sizeof words};
  sockaddr_un address{};
  const socklen_t size = local_socket_address("gpu-post", to.name, address);
  alignas(cmsghdr) std::array<char, 256> room{};
  msghdr message{};
  message.msg_name = &address;
  message.msg_namelen = size;
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = room.data();
  message.msg_controllen = CMSG_SPACE(files.size() * sizeof(int));
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(files.size() * sizeof(int));
  std::memcpy(CMSG_DATA(header), files.data(), files.size() * sizeof(int));
  ASSERT_EQ(::sendmsg(socket.get(), &message, 0), ssize_t(sizeof words));
}

TEST(DescriptorPost, HandsOverOneDescriptorAndWhoSentIt) {
  const DescriptorPost sender, receiver;
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const Descriptor out(ends[0]), in(ends[1]);
  sender.send(receiver.address(), 5, in);
  const DescriptorPost::Letter letter = receiver.receive(steady_clock::now() + std::chrono::seconds(30));
  EXPECT_EQ(letter.rank, 5);
  ASSERT_EQ(::write(letter.descriptor.get(), "x", 1), 1);
  char byte = 0;
  EXPECT_EQ(::read(out.get(), &byte, 1), 1);
}

// The room that the kernel asks for one descriptor holds two by its alignment: a second one stayed open for good.
TEST(DescriptorPost, KeepsNoDescriptorOpenThatItDoesNotHandOut) {
  const DescriptorPost receiver;
  WatchSecret other = receiver.address().secret;
  other.front() = static_cast<WatchSecret::value_type>(~other.front());
  const auto before = open_descriptors();
  for (int time = 0; time < 20; ++time) {
    post(receiver.address(), other, 1);
    post(receiver.address(), other, 2);
    post(receiver.address(), receiver.address().secret, 2);
    const DescriptorPost::Letter letter = receiver.receive(steady_clock::now() + std::chrono::seconds(30));
    EXPECT_EQ(letter.rank, 3);
    EXPECT_EQ(open_descriptors(), before + 1) << "the letter's own";
  }
  EXPECT_EQ(open_descriptors(), before);
  post(receiver.address(), other, 1);
  EXPECT_THROW(receiver.receive(steady_clock::now() + milliseconds(20)), Failure);
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace busbw::gpu

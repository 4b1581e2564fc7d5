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
#include <memory>
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
  std::uint64_t about;
  std::int32_t rank;
  std::int32_t reserved;
};

// As a rank's letter, with any number of descriptors of /dev/null and any secret.
void post(const PostAddress& to, const WatchSecret& secret, int count) {
  const Descriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const Descriptor null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const std::vector<int> files(std::size_t(count), null.get());
  Words words{.secret = secret, .about = 77, .rank = 3, .reserved = 0};
  iovec part{.iov_base = &words, .iov_len = sizeof words};
  sockaddr_un address{};
  const socklen_t size = local_socket_address("gpu-post", to.name, address);
  alignas(cmsghdr) std::array<char, 1024> room{};
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
  ASSERT_EQ(::write(letter.descriptors.front().get(), "x", 1), 1);
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
    EXPECT_EQ(letter.about, 77u);
    EXPECT_EQ(letter.descriptors.size(), 2u);
    EXPECT_EQ(open_descriptors(), before + 2) << "the letter's own";
  }
  EXPECT_EQ(open_descriptors(), before);
  post(receiver.address(), other, 1);
  EXPECT_THROW(receiver.receive(steady_clock::now() + milliseconds(20)), Failure);
  EXPECT_EQ(open_descriptors(), before);
}

std::vector<Descriptor> of_dev_null(std::size_t count) {
  std::vector<Descriptor> all;
  for (std::size_t i = 0; i < count; ++i) all.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  return all;
}

TEST(DescriptorPost, TakesAsManyAsALetterHolds) {
  const DescriptorPost sender, receiver;
  EXPECT_FALSE(receiver.take());
  EXPECT_TRUE(sender.offer(receiver.address(), 2, 9, of_dev_null(DescriptorPost::most)));
  EXPECT_THROW(sender.offer(receiver.address(), 2, 9, of_dev_null(DescriptorPost::most + 1)), Failure);
  EXPECT_THROW(sender.offer(receiver.address(), 2, 9, {}), Failure);
  const auto letter = receiver.take();
  ASSERT_TRUE(letter);
  EXPECT_EQ(letter->rank, 2);
  EXPECT_EQ(letter->about, 9u);
  EXPECT_EQ(letter->descriptors.size(), DescriptorPost::most);
  EXPECT_FALSE(receiver.take());
}

TEST(DescriptorPost, LeavesOutALetterWithMore) {
  const DescriptorPost receiver;
  const auto before = open_descriptors();
  post(receiver.address(), receiver.address().secret, int(DescriptorPost::most) + 20);
  EXPECT_FALSE(receiver.take());
  EXPECT_EQ(open_descriptors(), before);
}

TEST(DescriptorPost, SaysWhereAQueueIsFull) {
  const DescriptorPost sender;
  auto receiver = std::make_unique<DescriptorPost>();
  const PostAddress address = receiver->address();
  int sent = 0;
  while (sent < 10000 && sender.offer(address, 1, 0, of_dev_null(1))) ++sent;
  EXPECT_LT(sent, 10000);
  EXPECT_TRUE(receiver->take());
  EXPECT_TRUE(sender.offer(address, 1, 0, of_dev_null(1)));
  receiver.reset();
  EXPECT_THROW(sender.offer(address, 1, 0, of_dev_null(1)), Failure) << "it is gone";
}

}  // namespace
}  // namespace busbw::gpu

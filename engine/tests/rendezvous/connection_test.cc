// Process 0's side of a connection when the other side goes.
#include "engine/rendezvous/net/connection.h"

#include <gtest/gtest.h>

#include <chrono>

#include "engine/rendezvous/net/socket.h"

namespace busbw {
namespace {

TEST(Connection, WhosePeerWentInTheMiddleOfALongMessageTakesFurtherOnesWithoutHarm) {
  auto [near_end, far_end] = socket_pair();
  Connection connection(std::move(near_end), 1 << 20);
  connection.send(std::make_shared<const std::string>(64u << 20, 'x'));
  ASSERT_TRUE(connection.sending()) << "the kernel took a message that was meant to be too long for it";
  far_end.close();
  connection.flush();
  EXPECT_FALSE(connection.sending());
  connection.send(std::make_shared<const std::string>("short"));
  EXPECT_FALSE(connection.sending());
}

}  // namespace
}  // namespace busbw

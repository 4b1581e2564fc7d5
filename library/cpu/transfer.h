// Point-to-point messages: the sends and receives of one call or group, progressing all together.
#pragma once

#include <cstddef>
#include <vector>

namespace busbw::cpu {

class Communicator;

enum class Direction { send, receive };

struct Transfer {
  Direction direction = Direction::send;
  int peer = 0;
  // Only read from when sending.
  unsigned char* buffer = nullptr;
  std::size_t bytes = 0;

  std::size_t done = 0;
  bool finished = false;
};

}  // namespace busbw::cpu

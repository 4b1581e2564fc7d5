// One non-blocking connection of process 0.
#include "engine/rendezvous/net/connection.h"

#include <array>

namespace busbw {

void Connection::receive() {
  std::array<char, 65536> buffer;
  // A bounded number of reads, so that one busy process cannot keep the others waiting.
  for (int turn = 0; turn < 16 && !closed_; ++turn) {
    const long count = read_some(socket_, buffer.data(), buffer.size());
    if (count < 0) return;
    if (count == 0) {
      closed_ = true;
      return;
    }
    heard_ = Clock::now();
    spoken_ = true;
    reader_.feed({buffer.data(), static_cast<std::size_t>(count)});
  }
}

void Connection::send(std::shared_ptr<const std::string> data) {
  queue_.push_back(std::move(data));
  flush();
}

void Connection::flush() {
  while (!queue_.empty() && !closed_) {
    const long count = write_some(socket_, std::string_view(*queue_.front()).substr(sent_));
    // A broken connection still holds what arrived before; reading finds its end.
    if (count < 0) {
      queue_.clear();
      sent_ = 0;  // the next message, if one comes before the end is found, starts at its beginning
    }
    if (count <= 0) return;
    sent_ += static_cast<std::size_t>(count);
    if (sent_ == queue_.front()->size()) {
      queue_.pop_front();
      sent_ = 0;
    }
  }
}

}  // namespace busbw

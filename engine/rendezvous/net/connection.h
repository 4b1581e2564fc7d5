// Process 0's end of one connection: frames in, frames out, nothing that blocks.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "engine/rendezvous/net/socket.h"
#include "engine/rendezvous/net/wire.h"

namespace busbw {

class Connection {
 public:
  Connection(FileDescriptor socket, std::size_t body_limit) : socket_(std::move(socket)), reader_(body_limit) {}

  int descriptor() const { return socket_.get(); }
  bool silent() const { return !spoken_; }  // not a byte has come
  bool closed() const { return closed_; }
  bool sending() const { return !queue_.empty(); }
  Clock::time_point opened() const { return opened_; }
  Clock::time_point heard() const { return heard_; }
  void pretend_heard(Clock::time_point now) { heard_ = now; }
  void set_limit(std::size_t body_limit) { reader_.set_limit(body_limit); }

  // Takes in what has arrived; next() then gives the frames. Throws WireError for garbage.
  void receive();
  std::optional<Frame> next() { return reader_.next(); }

  // Many connections may send the same large text, so it is shared.
  void send(std::shared_ptr<const std::string> data);
  void send(std::string data) { send(std::make_shared<const std::string>(std::move(data))); }
  void flush();

 private:
  FileDescriptor socket_;
  FrameReader reader_;
  std::deque<std::shared_ptr<const std::string>> queue_;
  std::size_t sent_ = 0;  // of the queue's front
  bool closed_ = false;
  bool spoken_ = false;
  Clock::time_point opened_ = Clock::now();
  Clock::time_point heard_ = opened_;
};

}  // namespace busbw

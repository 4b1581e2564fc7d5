// A process's connection to process 0: collective exchanges, and a watching thread that learns of failures.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/rendezvous/net/socket.h"
#include "engine/rendezvous/net/stopped_looks.h"
#include "engine/rendezvous/net/wire.h"

namespace busbw {

// Which call of Rendezvous a contribution belongs to, so that a mix-up is noticed.
enum class Exchange : std::uint8_t { setup = 1, bytes, numbers, barrier };
// Calls of all processes and calls of one process per host are counted apart.
enum class Channel : std::uint8_t { all = 0, leaders = 1 };

class Spoke {
 public:
  // `reader` holds what arrived behind the start frame.
  Spoke(FileDescriptor socket, FrameReader reader, std::vector<Member> members, int process);
  ~Spoke();

  const std::vector<Member>& members() const { return members_; }

  // The contributions of `members` processes in process order. Throws PeerFailure, or Error after wait_limit.
  std::vector<std::string> exchange(Channel channel, Exchange kind, std::size_t members, std::string_view mine);

  void announce(const Failure& failure) noexcept;
  const Failure* failure() const noexcept { return failure_.load(std::memory_order_acquire); }
  void on_failure(std::function<void(const Failure&)> action);
  void leave();

  // The first of these processes that has left, or -1. Where process 0 itself has ended, and this process never left,
  // that is process 0: nobody would tell of a loss any more.
  int left_among(const std::vector<int>& processes) const noexcept;
  bool left() const noexcept { return left_; }
  [[noreturn]] void throw_left(int gone) const;

 private:
  void watch();
  void take(const Frame& frame);
  void receive();
  void beat();
  bool send(std::string_view frame, Clock::time_point deadline);
  bool set_failure(const Failure& failure);
  void hub_lost(const char* how);
  void run_action();
  bool same_host(int process) const;
  void end_stopped_peer(int process) const;

  const std::vector<Member> members_;
  const int process_;
  FileDescriptor socket_;
  FrameReader reader_;
  FileDescriptor wake_ = make_event();

  std::mutex send_mutex_;
  std::mutex mutex_;  // of what follows, up to the next blank line
  std::condition_variable changed_;
  std::map<std::uint8_t, std::map<std::uint64_t, Result>> results_;
  bool all_left_ = false;
  bool announced_ = false;  // process 0 has passed a failure on

  std::map<std::uint8_t, std::uint64_t> sequences_;  // of the calling thread
  bool left_ = false;

  Failure first_failure_;
  std::once_flag failed_once_;
  std::atomic<const Failure*> failure_{nullptr};
  // Who has left while this one still counts on it: anybody, and each.
  std::atomic<int> left_process_{-1};
  bool left_first_ = false;  // nobody had failed when it left: what others lose afterwards follows from that
  std::vector<std::atomic<bool>> gone_;
  std::atomic<bool> disconnected_{false};
  std::atomic<bool> ending_{false};  // after leave or all_left a closing connection is no failure

  std::recursive_mutex action_mutex_;  // held while the action runs, so that clearing it waits for its end
  std::function<void(const Failure&)> action_;
  bool action_ran_ = false;

  Clock::time_point heard_ = Clock::now(), last_turn_ = heard_, next_beat_ = heard_;
  StoppedLooks stopped_;  // of process 0
  std::atomic<bool> stop_{false};
  std::thread watcher_;
};

}  // namespace busbw

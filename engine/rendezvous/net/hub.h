// Process 0's thread at the centre of the job: admits newcomers, hands contributions around, notices who is lost.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "engine/core/strangers.h"
#include "engine/rendezvous/limits.h"
#include "engine/rendezvous/net/connection.h"
#include "engine/rendezvous/net/sibling_watch.h"
#include "engine/rendezvous/net/stopped_looks.h"

namespace busbw {

struct HubOptions {
  int processes = 1;
  std::string secret;
  std::vector<std::string> hosts;  // to name one from which nobody came
  Clock::time_point join_deadline;
  std::chrono::milliseconds join_limit{60'000};         // for the sentence
  std::chrono::milliseconds greeting_limit{5'000};      // a newcomer that has not proved itself by then is dropped
  std::function<void(const std::string&)> notice = {};  // for a person; stderr by default
};

class Hub {
 public:
  // `own` is the hub's end of the pair that process 0 itself speaks through.
  Hub(Listener listener, FileDescriptor own, HubOptions options);
  // Sends out what is queued (bounded) and tells the others that process 0 ends in order.
  ~Hub();

  // Who called and was not of the job; does not change any more once the job has started.
  StrangerCounts strangers() const { return strangers_.counts(); }

 private:
  enum class State { greeting, proving, member };
  struct Guest {
    explicit Guest(Connection c) : connection(std::move(c)) {}
    Connection connection;
    State state = State::greeting;
    std::string newcomer_nonce, hub_nonce;
    Member member;
    bool own = false;  // process 0 itself, which may take its time
    bool left = false;
    bool dropped = false;
    StoppedLooks stopped;
  };
  struct Gathering {
    std::uint8_t call = 0;
    std::uint64_t sequence = 0;
    std::uint32_t members = 0;
    std::map<int, std::string> parts;  // by process
  };

  void run();
  void tell_the_line();
  void poll_once();
  void accept_newcomers();
  static bool is_pending(const Guest& guest) { return guest.state != State::member && !guest.dropped && !guest.own; }
  void make_room(int error);
  void drop_oldest();
  void serve(Guest& guest);
  void handle(Guest& guest, const Frame& frame);
  void greet(Guest& guest, const Frame& frame);
  void admit(Guest& guest, const Frame& frame);
  void serve_member(Guest& guest, const Frame& frame);
  void contribute(Guest& guest, Contribution contribution);
  void finish(std::uint8_t channel, Gathering& gathering);
  void refuse(Guest& guest, const std::string& sentence);
  void start();
  void fail(const Failure& failure);
  void closed(Guest& guest);
  void drop_stranger(Guest& guest, Stranger kind);
  void drop_whoever_waits();
  void tick(Clock::time_point now);
  void beat(Clock::time_point now, bool slept);
  void give_up_waiting();
  std::string missing_sentence() const;
  void notice_once(const std::string& cause, const std::string& sentence);
  void send_to_members(const std::string& frame);
  void flush_all();
  int joined() const;

  HubOptions options_;
  FileDescriptor listener_;
  FileDescriptor wake_ = make_event();
  FileDescriptor spare_;  // given up to tell the others that there is none left
  std::list<Guest> guests_;
  std::map<std::uint8_t, Gathering> gatherings_;
  std::optional<Failure> failure_;
  StrangerCounter strangers_;
  std::set<std::string> noticed_;
  std::string last_notice_;
  std::string host_identity_;  // of process 0
  SiblingWatch siblings_;
  bool started_ = false;
  std::optional<Clock::time_point> short_since_;  // no descriptor was free for a caller
  Clock::time_point next_beat_;
  Clock::time_point last_turn_ = Clock::now();
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace busbw

// Strangers at process 0's port: each is dropped, the job meets all the same, and a person is told once per cause.
#include <gtest/gtest.h>

#include <mutex>

#include "engine/core/version.h"
#include "engine/rendezvous/join/handshake.h"
#include "engine/rendezvous/net/hub.h"
#include "engine/rendezvous/net/spoke.h"
#include "engine/tests/rendezvous/ranks.h"

namespace busbw {
namespace {

using namespace testing;

// Process 0's hub with its door open, in this process.
class Door : public ::testing::Test {
 protected:
  explicit Door(int processes = 2) {
    Listener listener = *listen_at("127.0.0.1", 0, "");
    port_ = listener.port;
    auto [near_end, far_end] = socket_pair();
    own_ = std::move(near_end);
    hub_ = std::make_unique<Hub>(std::move(listener), std::move(far_end),
                                 HubOptions{.processes = processes,
                                            .secret = "right",
                                            .hosts = {},
                                            .join_deadline = Clock::now() + 60s,
                                            .greeting_limit = 2s,
                                            .notice = [this](const std::string& text) {
                                              const std::lock_guard lock(mutex_);
                                              notices_.push_back(text);
                                            }});
  }

  FileDescriptor call() const {
    std::string why;
    return connect_to(resolve({"127.0.0.1", port_}).front(), Clock::now() + 5s, why);
  }

  static Member member(int process, int processes = 2) {
    return {.version = version,
            .process = process,
            .processes = processes,
            .pid = getpid(),
            .host = "here",
            .host_identity = "here"};
  }

  // What process 0 answers to a newcomer: "start", a refusal's or failure's sentence, or why it was a stranger.
  std::string answer(const FileDescriptor& socket, const Member& who, const std::string& secret = "right") const {
    FrameReader reader(1 << 20);
    std::string why;
    const auto deadline = Clock::now() + 20s;
    if (knock(socket, reader, secret, who, deadline, why) == Knock::stranger) return why;
    try {
      const auto frame = wait_frame(socket, reader, deadline);
      if (!frame) return "silence";
      if (frame->kind == FrameKind::start) return "start";
      return frame->kind == FrameKind::failure ? read_failure(frame->body).sentence : frame->body;
    } catch (const WireError& error) {
      return error.what();
    }
  }

  void expect_dropped(const FileDescriptor& socket) const {
    char byte;
    const auto deadline = Clock::now() + 20s;
    for (;;) {
      ASSERT_TRUE(wait_ready(socket, POLLIN, deadline)) << "the stranger was kept";
      if (read_some(socket, &byte, 1) == 0) return;
    }
  }

  void expect_job_meets() {
    FileDescriptor other = call();
    std::string said;
    std::thread second([&] { said = answer(other, member(1)); });
    EXPECT_EQ(answer(own_, member(0)), "start");
    second.join();
    EXPECT_EQ(said, "start");
  }

  // The hub counts on its own thread: what it has seen by now, once it is that many or 10 s have passed.
  StrangerCounts counted(long at_least) const {
    const auto deadline = Clock::now() + 10s;
    while (total(hub_->strangers()) < at_least && Clock::now() < deadline) std::this_thread::sleep_for(1ms);
    return hub_->strangers();
  }

  static StrangerCounts only(Stranger kind, int count) {
    StrangerCounts counts{};
    counts[static_cast<std::size_t>(kind)] = count;
    return counts;
  }

  int notices_with(const std::string& part) {
    const std::lock_guard lock(mutex_);
    return static_cast<int>(std::count_if(notices_.begin(), notices_.end(),
                                          [&](const std::string& text) { return text.find(part) != text.npos; }));
  }

  std::mutex mutex_;
  std::vector<std::string> notices_;
  int port_ = 0;
  FileDescriptor own_;
  std::unique_ptr<Hub> hub_;
};

TEST_F(Door, DropsOtherProtocolsAndSaysSoOnce) {
  for (int round = 0; round < 5; ++round) {
    const FileDescriptor stranger = call();
    write_some(stranger, "GET / HTTP/1.1\r\nHost: busbw\r\n\r\n");
    expect_dropped(stranger);
  }
  expect_job_meets();
  EXPECT_EQ(notices_with("called by a stranger, which was dropped"), 1);
  EXPECT_EQ(counted(5), only(Stranger::not_busbw, 5));
}

TEST_F(Door, DropsAPortScannerThatConnectsAndGoes) {
  for (int round = 0; round < 200; ++round) call();
  expect_job_meets();
  EXPECT_EQ(notices_.size(), 0u);
  EXPECT_EQ(counted(200), only(Stranger::silent, 200));
}

TEST_F(Door, DropsWhoSpeaksTooSlowlyOrNotAtAll) {
  const FileDescriptor silent = call(), slow = call();
  const std::string hello = encode_hello(std::string(nonce_bytes, 'x'));
  const auto start = Clock::now();
  for (std::size_t i = 0; i < 5; ++i) {
    write_some(slow, hello.substr(i, 1));
    std::this_thread::sleep_for(50ms);
  }
  expect_dropped(silent);
  expect_dropped(slow);
  EXPECT_LT(Clock::now() - start, 15s);
  expect_job_meets();
  EXPECT_EQ(notices_with("did not introduce itself"), 1);
  StrangerCounts expected = only(Stranger::silent, 1);
  expected[static_cast<std::size_t>(Stranger::unfinished)] = 1;
  EXPECT_EQ(counted(2), expected);
}

TEST_F(Door, StaysOpenToTheJobWhenStrangersCrowdIt) {
  std::vector<FileDescriptor> crowd;
  for (int i = 0; i < 150; ++i) crowd.push_back(call());
  expect_job_meets();
  const StrangerCounts counts = counted(150);
  EXPECT_EQ(total(counts), 150);
  EXPECT_GT(counts[static_cast<std::size_t>(Stranger::crowded)], 0);
}

TEST_F(Door, DropsWhoDoesNotKnowTheSecret) {
  EXPECT_NE(answer(call(), member(1), "wrong").find("does not know this job's secret"), std::string::npos);
  // And who answers the challenge without having looked at it.
  const FileDescriptor stranger = call();
  send_all(stranger, encode_hello(std::string(nonce_bytes, 'x')), Clock::now() + 1s);
  send_all(stranger, encode_proof("wrong", std::string(nonce_bytes, 'x'), std::string(nonce_bytes, 'y'), member(1)),
           Clock::now() + 1s);
  expect_dropped(stranger);
  EXPECT_EQ(notices_with("does not know this job's secret"), 1);
  expect_job_meets();
  StrangerCounts expected = only(Stranger::wrong_secret, 1);
  // The first one saw that the hub's proof is another job's, and went away in mid-greeting.
  expected[static_cast<std::size_t>(Stranger::unfinished)] = 1;
  EXPECT_EQ(counted(2), expected);
}

// What one process said in another meeting is worth nothing in this one: the hub's nonce is another.
TEST_F(Door, DropsAReplay) {
  const std::string nonce(nonce_bytes, 'x');
  std::string recorded;
  for (int round = 0; round < 2; ++round) {
    const FileDescriptor socket = call();
    send_all(socket, encode_hello(nonce), Clock::now() + 1s);
    FrameReader reader(greeting_limit);
    const auto challenge = wait_frame(socket, reader, Clock::now() + 5s);
    ASSERT_TRUE(challenge);
    if (round == 0) recorded = encode_proof("right", nonce, read_challenge(challenge->body).nonce, member(1));
    if (round == 1) send_all(socket, recorded, Clock::now() + 1s);
    if (round == 1) expect_dropped(socket);
  }
  expect_job_meets();
  EXPECT_EQ(counted(2)[static_cast<std::size_t>(Stranger::wrong_secret)], 1);
}

TEST_F(Door, CountsWhoStandsThereWhenTheJobStarts) {
  const FileDescriptor silent = call(), unfinished = call();
  write_some(unfinished, encode_hello(std::string(nonce_bytes, 'x')));
  expect_job_meets();
  StrangerCounts expected = only(Stranger::silent, 1);
  expected[static_cast<std::size_t>(Stranger::unfinished)] = 1;
  EXPECT_EQ(counted(2), expected);
}

TEST_F(Door, CountsNobodyWhereNobodyCame) {
  expect_job_meets();
  EXPECT_EQ(hub_->strangers(), StrangerCounts{});
  EXPECT_EQ(sentence_of(hub_->strangers()), "");
}

TEST(Sentence, NamesEachKindThatCame) {
  StrangerCounts counts{};
  counts[static_cast<std::size_t>(Stranger::wrong_secret)] = 8;
  counts[static_cast<std::size_t>(Stranger::silent)] = 4;
  EXPECT_EQ(sentence_of(counts), "12 connections that were not of this job were refused (8 wrong secret, 4 silent)");
  counts = {};
  counts[static_cast<std::size_t>(Stranger::crowded)] = 1;
  EXPECT_EQ(sentence_of(counts), "1 connection that was not of this job was refused (1 dropped in a crowd)");
}

TEST_F(Door, RefusesAnotherSizeOfTheJob) {
  const std::string said = answer(call(), member(1, 3));
  EXPECT_NE(said.find("says that the job has 3 processes, but process 0 says 2"), std::string::npos) << said;
  expect_job_meets();
  EXPECT_EQ(counted(1), only(Stranger::another_job, 1));
}

TEST_F(Door, RefusesASecondProcessOfTheSameRank) {
  const FileDescriptor first = call();
  FrameReader reader(1 << 20);
  std::string why;
  ASSERT_EQ(knock(first, reader, "right", member(1), Clock::now() + 5s, why), Knock::welcome);
  std::this_thread::sleep_for(50ms);
  const std::string said = answer(call(), member(1));
  EXPECT_NE(said.find("A second process 1"), std::string::npos) << said;
  EXPECT_EQ(answer(own_, member(0)), "start");
}

TEST_F(Door, EndsTheJobOnBothSidesWhenVersionsDiffer) {
  Member newer = member(1);
  newer.version = "9.9.9";
  newer.protocol = 2;
  const std::string wanted = "runs busbw 9.9.9 (protocol 2), but process 0 runs busbw ";
  const std::string theirs = answer(call(), newer);
  EXPECT_NE(theirs.find(wanted), std::string::npos) << theirs;
  const std::string ours = answer(own_, member(0));
  EXPECT_NE(ours.find(wanted), std::string::npos) << ours;
}

TEST_F(Door, EndsTheJobWhenAMemberIsLostBeforeAllHaveCome) {
  FrameReader reader(1 << 20);
  std::string why;
  FileDescriptor other = call();
  Member one = member(1);
  ASSERT_EQ(knock(other, reader, "right", one, Clock::now() + 5s, why), Knock::welcome);
  std::this_thread::sleep_for(50ms);
  other.close();
  std::this_thread::sleep_for(50ms);
  const std::string said = answer(own_, member(0));
  EXPECT_NE(said.find("was lost: its connection closed while the job was still gathering"), std::string::npos) << said;
}

}  // namespace
}  // namespace busbw

// Process 0's thread: everything below the constructor and destructor runs on it alone, so nothing here is locked.
#include "engine/rendezvous/net/hub.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "engine/core/version.h"
#include "engine/core/visible.h"
#include "engine/platform/process.h"
#include "engine/rendezvous/join/handshake.h"
#include "engine/rendezvous/net/door.h"

namespace busbw {
namespace {

constexpr int spare_guests = 64;  // strangers that may stand at the door at once
constexpr std::chrono::milliseconds farewell_limit{1'000};
constexpr std::chrono::milliseconds longest_greeting{500};  // of one of the job, where descriptors are short
constexpr std::chrono::milliseconds shortage_limit{1'000};
constexpr std::chrono::milliseconds shortage_pause{5};
constexpr int most_counted_in_line = 4096;  // who waits to be let in when the job starts

// Most systems allow 1024 descriptors at first and many more on request: one per process is needed here.
void allow_descriptors(int processes) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = limit.rlim_cur + static_cast<rlim_t>(processes) + spare_guests;
  limit.rlim_cur = std::min(limit.rlim_max, wanted);
  setrlimit(RLIMIT_NOFILE, &limit);
}

std::string versions_differ(const Member& member) {
  return format(
      "%s runs busbw %s (protocol %d), but process 0 runs busbw %s (protocol %d); install the same version on "
      "every host",
      describe(member).c_str(), member.version.c_str(), member.protocol, version, protocol_version);
}

}  // namespace

Hub::Hub(Listener listener, FileDescriptor own, HubOptions options)
    : options_(std::move(options)), listener_(std::move(listener.socket)) {
  allow_descriptors(options_.processes);
  guests_.emplace_back(Connection(std::move(own), greeting_limit));
  guests_.back().own = true;
  spare_ = FileDescriptor(fcntl(listener_.get(), F_DUPFD_CLOEXEC, 0));  // a job that is just short of it starts without
  thread_ = std::thread([this] { run(); });
}

Hub::~Hub() {
  stop_ = true;
  signal_event(wake_);
  thread_.join();
}

void Hub::run() {
  while (!stop_) poll_once();
  poll_once();  // what process 0 itself sent last: its leave, its failure, or a connection closed in mid-run
  if (failure_ && !started_) tell_the_line();
  send_to_members(encode(FrameKind::all_left));
  flush_all();
}

// Who is of the job and has only just come learns why it does not start, though process 0 is about to end: it would
// wait for it, up to its own limit.
void Hub::tell_the_line() {
  spare_.close();
  const auto deadline = Clock::now() + farewell_limit;
  const auto waits = [&] {
    return wait_ready(listener_, POLLIN, Clock::now()) || std::any_of(guests_.begin(), guests_.end(), is_pending);
  };
  while (Clock::now() < deadline && waits()) poll_once();
}

void Hub::poll_once() {
  std::vector<pollfd> waiting{{.fd = wake_.get(), .events = POLLIN, .revents = 0},
                              {.fd = listener_.get(), .events = POLLIN, .revents = 0}};
  std::vector<Guest*> order;
  for (Guest& guest : guests_) {
    const short events = guest.connection.sending() ? POLLIN | POLLOUT : POLLIN;
    waiting.push_back({.fd = guest.connection.descriptor(), .events = events, .revents = 0});
    order.push_back(&guest);
  }
  const auto until_beat = std::chrono::ceil<std::chrono::milliseconds>(next_beat_ - Clock::now()).count();
  const int timeout = started_ ? static_cast<int>(std::clamp<long>(until_beat, 0, 1000)) : 50;
  if (poll(waiting.data(), waiting.size(), timeout) > 0) {
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (waiting[i + 2].revents & POLLOUT) order[i]->connection.flush();
      if (waiting[i + 2].revents & ~POLLOUT) serve(*order[i]);
    }
    if (waiting[1].revents) accept_newcomers();
  }
  tick(Clock::now());
  guests_.remove_if([](const Guest& guest) { return guest.dropped; });
}

void Hub::accept_newcomers() {
  // A few a turn, so that those who went away again are noticed in between.
  for (int turn = 0; turn < 16; ++turn) {
    // Without a free descriptor accept4 fails even where nobody calls.
    if (!wait_ready(listener_, POLLIN, Clock::now())) return;
    FileDescriptor socket(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.open()) return is_shortage(errno) ? make_room(errno) : void();
    short_since_.reset();
    if (std::count_if(guests_.begin(), guests_.end(), is_pending) >= options_.processes + spare_guests) drop_oldest();
    if (of_another_user(socket)) {
      strangers_.add(Stranger::another_user);
      notice_once("user", "A process of another user called at process 0's door and was dropped");
      continue;
    }
    prepare_stream(socket);
    guests_.emplace_back(Connection(std::move(socket), greeting_limit));
  }
}

// Who has stood at the door for a while is a stranger and gives way. Where nobody does, nobody else of the job can
// come: that is said soon, and not at the end of the wait for them.
void Hub::make_room(int error) {
  const auto now = Clock::now();
  if (!short_since_) short_since_ = now;
  const auto oldest = std::find_if(guests_.begin(), guests_.end(), is_pending);
  if (oldest != guests_.end() && now - oldest->connection.opened() > longest_greeting) {
    drop_oldest();
  } else if (now - *short_since_ > shortage_limit) {
    fail({.process = 0,
          .code = ExitCode::internal,
          .sentence = format("Process 0 can take no connection of a further process, %d of %d have come: %s%s",
                             joined(), options_.processes, std::strerror(error), shortage_advice(error).c_str())});
  }
  std::this_thread::sleep_for(shortage_pause);  // the caller waits in line, and would be seen again at once
}

void Hub::drop_oldest() {
  const auto oldest = std::find_if(guests_.begin(), guests_.end(), is_pending);
  if (oldest == guests_.end()) return;
  notice_once("crowd", "Too many callers that are not of this job stand at process 0's port; the oldest is dropped");
  strangers_.add(Stranger::crowded);
  guests_.erase(oldest);
}

void Hub::serve(Guest& guest) {
  if (guest.dropped) return;
  try {
    guest.connection.receive();
    while (!guest.dropped) {
      const auto frame = guest.connection.next();
      if (!frame) break;
      handle(guest, *frame);
    }
    if (guest.connection.closed() && !guest.dropped) closed(guest);
  } catch (const WireError& error) {
    if (guest.state == State::member) {
      closed(guest);
    } else {
      const bool knows_the_words = dynamic_cast<const SecretError*>(&error) != nullptr;
      drop_stranger(guest, knows_the_words ? Stranger::wrong_secret : Stranger::not_busbw);
      notice_once(error.what(),
                  format("Process 0's port was called by a stranger, which was dropped: %s", error.what()));
    }
  }
}

void Hub::handle(Guest& guest, const Frame& frame) {
  switch (guest.state) {
    case State::greeting:
      return greet(guest, frame);
    case State::proving:
      return admit(guest, frame);
    case State::member:
      return serve_member(guest, frame);
  }
}

void Hub::greet(Guest& guest, const Frame& frame) {
  if (frame.kind != FrameKind::hello) throw WireError("something other than a greeting");
  guest.newcomer_nonce = read_hello(frame.body);
  guest.hub_nonce = random_bytes(nonce_bytes);
  guest.state = State::proving;
  guest.connection.send(encode_challenge(options_.secret, guest.newcomer_nonce, guest.hub_nonce));
}

void Hub::admit(Guest& guest, const Frame& frame) {
  if (frame.kind != FrameKind::proof) throw WireError("something other than a proof of the secret");
  guest.member = read_proof(options_.secret, guest.newcomer_nonce, guest.hub_nonce, frame.body);
  const Member& member = guest.member;
  if (member.protocol != protocol_version || member.version != version) {
    fail({.process = member.process, .code = ExitCode::invalid_usage, .sentence = versions_differ(member)});
    return refuse(guest, versions_differ(member));
  }
  if (failure_) return refuse(guest, failure_->sentence);
  if (member.processes != options_.processes || member.process < 0 || member.process >= options_.processes) {
    return refuse(guest, format("%s says that the job has %d processes, but process 0 says %d; start all with the same "
                                "size",
                                describe(member).c_str(), member.processes, options_.processes));
  }
  for (const Guest& other : guests_) {
    if (&other != &guest && other.state == State::member && other.member.process == member.process) {
      return refuse(guest, format("A second process %d (pid %ld on host %s) came, but %s has joined already; two jobs "
                                  "share one address and secret",
                                  member.process, member.pid, member.host.c_str(), describe(other.member).c_str()));
    }
  }
  guest.state = State::member;
  guest.connection.set_limit(member_limit);
  if (guest.own) host_identity_ = member.host_identity;
  if (joined() == options_.processes) start();
}

void Hub::refuse(Guest& guest, const std::string& sentence) {
  if (!failure_) notice_once("refused " + std::to_string(guest.member.process), sentence);
  guest.connection.send(encode(FrameKind::refusal, sentence));
  // After a failure of the job itself, those who come late are of the job.
  failure_ ? void(guest.dropped = true) : drop_stranger(guest, Stranger::another_job);
}

void Hub::drop_stranger(Guest& guest, Stranger kind) {
  guest.dropped = true;
  if (!guest.own) strangers_.add(kind);
}

// All of the job have come: who still stands at the door, or in the line before it, is not of it.
void Hub::drop_whoever_waits() {
  for (Guest& guest : guests_) {
    if (guest.state == State::member || guest.dropped) continue;
    drop_stranger(guest, guest.connection.silent() ? Stranger::silent : Stranger::unfinished);
  }
  for (int waiting = 0; waiting < most_counted_in_line; ++waiting) {
    const FileDescriptor socket(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.open()) break;
    char byte;
    const bool spoke = recv(socket.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
    strangers_.add(spoke ? Stranger::unfinished : Stranger::silent);
  }
  listener_.close();
}

void Hub::start() {
  std::vector<Member> members(static_cast<std::size_t>(options_.processes));
  for (const Guest& guest : guests_) {
    if (guest.state == State::member) members[static_cast<std::size_t>(guest.member.process)] = guest.member;
  }
  drop_whoever_waits();
  started_ = true;
  for (Guest& guest : guests_) guest.connection.pretend_heard(Clock::now());
  send_to_members(encode_start(members));
}

void Hub::serve_member(Guest& guest, const Frame& frame) {
  switch (frame.kind) {
    case FrameKind::heartbeat:
      return;
    case FrameKind::contribution:
      return contribute(guest, read_contribution(frame.body));
    case FrameKind::failure:
      return fail(read_failure(frame.body));
    case FrameKind::leave: {
      guest.left = true;
      const std::string number = BodyWriter().number(static_cast<std::uint32_t>(guest.member.process), 4).take();
      send_to_members(encode(FrameKind::leave, number));
      const auto stays = [](const Guest& other) { return other.state == State::member && !other.left; };
      if (std::none_of(guests_.begin(), guests_.end(), stays)) send_to_members(encode(FrameKind::all_left));
      return;
    }
    case FrameKind::hello:
    case FrameKind::challenge:
    case FrameKind::proof:
    case FrameKind::refusal:
    case FrameKind::start:
    case FrameKind::result:
    case FrameKind::all_left:
      throw WireError("a frame that only process 0 sends");
  }
}

void Hub::contribute(Guest& guest, Contribution contribution) {
  Gathering& gathering = gatherings_[contribution.channel];
  if (gathering.parts.empty()) {
    gathering.call = contribution.call;
    gathering.sequence = contribution.sequence;
    gathering.members = contribution.members;
  }
  const bool same = gathering.call == contribution.call && gathering.sequence == contribution.sequence &&
                    gathering.members == contribution.members;
  if (!same || !gathering.parts.emplace(guest.member.process, std::move(contribution.data)).second) {
    return fail({.process = guest.member.process,
                 .code = ExitCode::internal,
                 .sentence = describe(guest.member) + " made a different collective call than process " +
                             std::to_string(gathering.parts.begin()->first) + "; this is an error in busbw"});
  }
  if (gathering.parts.size() == gathering.members) finish(contribution.channel, gathering);
}

void Hub::finish(std::uint8_t channel, Gathering& gathering) {
  Result result{.channel = channel, .sequence = gathering.sequence, .parts = {}};
  std::size_t bytes = 0;
  for (auto& [process, part] : gathering.parts) {
    bytes += part.size() + 4;
    result.parts.push_back(std::move(part));
  }
  if (bytes + 64 > result_limit) {
    return fail({.process = 0,
                 .code = ExitCode::internal,
                 .sentence = format("The processes exchange %zu bytes in one call, above the limit of %zu", bytes,
                                    result_limit)});
  }
  const auto frame = std::make_shared<const std::string>(encode(result));
  for (Guest& guest : guests_) {
    if (guest.state == State::member && gathering.parts.contains(guest.member.process)) guest.connection.send(frame);
  }
  gathering.parts.clear();
}

void Hub::fail(const Failure& failure) {
  if (failure_) return;
  failure_ = failure;
  send_to_members(encode(failure));
}

void Hub::closed(Guest& guest) {
  if (guest.state != State::member)
    return drop_stranger(guest, guest.connection.silent() ? Stranger::silent : Stranger::unfinished);
  guest.dropped = true;
  if (guest.left || failure_) return;
  fail({.process = guest.member.process,
        .code = ExitCode::internal,
        .sentence = describe(guest.member) + " was lost: its connection closed " +
                    (started_ ? "in mid-run" : "while the job was still gathering")});
}

void Hub::notice_once(const std::string& cause, const std::string& sentence) {
  last_notice_ = sentence;
  if (!noticed_.insert(cause).second) return;
  if (options_.notice) {
    options_.notice(sentence);
  } else {
    std::fprintf(stderr, "busbw: %s\n", bounded_sentence(sentence).c_str());
  }
}

void Hub::send_to_members(const std::string& frame) {
  const auto shared = std::make_shared<const std::string>(frame);
  // Process 0 itself comes last: it may end as soon as it has heard, and this thread with it.
  for (const bool own : {false, true}) {
    for (Guest& guest : guests_) {
      if (guest.own == own && guest.state == State::member && !guest.dropped) guest.connection.send(shared);
    }
  }
}

void Hub::flush_all() {
  const auto deadline = Clock::now() + farewell_limit;
  for (Guest& guest : guests_) {
    while (guest.connection.sending() && Clock::now() < deadline) {
      pollfd waiting{.fd = guest.connection.descriptor(), .events = POLLOUT, .revents = 0};
      poll(&waiting, 1, 10);
      guest.connection.flush();
    }
  }
}

int Hub::joined() const {
  return static_cast<int>(
      std::count_if(guests_.begin(), guests_.end(), [](const Guest& guest) { return guest.state == State::member; }));
}

}  // namespace busbw

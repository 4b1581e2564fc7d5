// A process's connection to process 0.
#include "engine/rendezvous/net/spoke.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <thread>

#include "engine/platform/process.h"
#include "engine/rendezvous/join/handshake.h"
#include "engine/rendezvous/limits.h"
#include "engine/rendezvous/net/sibling_watch.h"

namespace busbw {

Spoke::Spoke(FileDescriptor socket, FrameReader reader, std::vector<Member> members, int process)
    : members_(std::move(members)),
      process_(process),
      socket_(std::move(socket)),
      reader_(std::move(reader)),
      gone_(members_.size()) {
  reader_.set_limit(result_limit);
  watcher_ = std::thread([this] { watch(); });
}

Spoke::~Spoke() {
  stop_ = true;
  signal_event(wake_);
  watcher_.join();
}

std::vector<std::string> Spoke::exchange(Channel channel, Exchange kind, std::size_t members, std::string_view mine) {
  if (mine.size() > contribution_limit) {
    throw Error(ExitCode::internal, format("A contribution of %zu bytes is above the limit of %zu of one exchange",
                                           mine.size(), contribution_limit));
  }
  const auto number = static_cast<std::uint8_t>(channel);
  const Contribution contribution{.channel = number,
                                  .call = static_cast<std::uint8_t>(kind),
                                  .sequence = sequences_[number]++,
                                  .members = static_cast<std::uint32_t>(members),
                                  .data = std::string(mine)};
  const auto deadline = Clock::now() + wait_limit;
  send(encode(contribution), deadline);
  std::unique_lock lock(mutex_);
  auto& results = results_[number];
  changed_.wait_until(lock, deadline, [&] {
    return results.contains(contribution.sequence) || failure() != nullptr || left_process_ >= 0 || disconnected_;
  });
  if (const auto found = results.find(contribution.sequence); found != results.end()) {
    std::vector<std::string> parts = std::move(found->second.parts);
    results.erase(found);
    return parts;
  }
  // Who is told of a leaver first ends too, and its closed connection is heard of next: the leaver is the cause.
  if (left_first_) throw_left(left_process_);
  if (const Failure* lost = failure()) throw PeerFailure(lost->code, lost->sentence, lost->process);
  if (left_process_ >= 0 || disconnected_) throw_left(std::max(left_process_.load(), 0));
  throw Error(ExitCode::timeout, format("Process %d waited %ld s for the others in an exchange; one of them hangs",
                                        process_, static_cast<long>(wait_limit.count())));
}

int Spoke::left_among(const std::vector<int>& processes) const noexcept {
  for (const int process : processes) {
    if (gone_[static_cast<std::size_t>(process)].load(std::memory_order_acquire)) return process;
  }
  return disconnected_ ? 0 : -1;
}

void Spoke::throw_left(int gone) const {
  throw Error(ExitCode::internal, describe(members_[static_cast<std::size_t>(gone)]) +
                                      " has left the job, but process " + std::to_string(process_) +
                                      " still counts on it in a collective call");
}

bool Spoke::send(std::string_view frame, Clock::time_point deadline) {
  const std::lock_guard lock(send_mutex_);
  return send_all(socket_, frame, deadline);
}

void Spoke::announce(const Failure& failure) noexcept {
  try {
    if (!set_failure(failure)) return;
    send(encode(failure), Clock::now() + announce_limit);
    if (std::this_thread::get_id() == watcher_.get_id()) return;
    // Process 0 passes it back: a process that ends right after its announcement was still heard.
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, announce_limit, [&] { return announced_ || disconnected_; });
  } catch (...) {
    // The others will then see this process's connection close.
  }
}

bool Spoke::set_failure(const Failure& failure) {
  bool first = false;
  std::call_once(failed_once_, [&] {
    first_failure_ = failure;
    failure_.store(&first_failure_, std::memory_order_release);
    first = true;
  });
  if (first) {
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
  }
  return first;
}

void Spoke::on_failure(std::function<void(const Failure&)> action) {
  const std::lock_guard lock(action_mutex_);
  action_ = std::move(action);
  action_ran_ = false;
  signal_event(wake_);  // the failure may be there already
}

bool Spoke::same_host(int process) const {
  return members_[static_cast<std::size_t>(process)].host_identity ==
         members_[static_cast<std::size_t>(process_)].host_identity;
}

// The launcher waits for every rank, and a stopped one ends by no other signal. One after the other, so that one rank
// says it and not all.
void Spoke::end_stopped_peer(int process) const {
  if (process < 0 || process >= static_cast<int>(members_.size()) || process == process_ || !same_host(process)) return;
  const Member& member = members_[static_cast<std::size_t>(process)];
  const int pid = static_cast<int>(member.pid);
  if (!is_stopped_of_ours(pid)) return;
  std::this_thread::sleep_for(2 * naming_pause * std::min(process_ - (process == 0), 2));
  name_and_end_stopped(pid, describe(member));
}

void Spoke::run_action() {
  const std::lock_guard lock(action_mutex_);
  const Failure* lost = failure();
  if (lost == nullptr || lost->process == process_ || action_ran_ || !action_) return;
  action_ran_ = true;
  const auto action = action_;  // it may clear itself
  action(*lost);
}

void Spoke::leave() {
  if (std::exchange(left_, true)) return;
  if (failure() != nullptr) return;
  ending_ = true;
  send(encode(FrameKind::leave), Clock::now() + announce_limit);
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, leave_limit, [&] { return all_left_ || failure() != nullptr || disconnected_; });
}

void Spoke::watch() {
  bool connected = true;
  while (!stop_) {
    std::array<pollfd, 2> waiting{{{.fd = wake_.get(), .events = POLLIN, .revents = 0},
                                   {.fd = connected ? socket_.get() : -1, .events = POLLIN, .revents = 0}}};
    const auto until_beat = std::chrono::ceil<std::chrono::milliseconds>(next_beat_ - Clock::now()).count();
    poll(waiting.data(), waiting.size(), static_cast<int>(std::clamp<long>(until_beat, 0, 1000)));
    clear_event(wake_);
    try {
      if (connected) receive();
      if (connected) beat();
    } catch (const WireError& error) {
      connected = false;
      hub_lost(error.what());
    }
    if (!connected) next_beat_ = Clock::now() + heartbeat_interval;
    run_action();
  }
}

void Spoke::receive() {
  std::array<char, 65536> buffer;
  const auto take_all = [&] {
    while (const auto frame = reader_.next()) take(*frame);
  };
  take_all();  // what came along with the start of the job
  // A bounded number of reads: during a long message this process's own signs of life must not stop.
  for (int turn = 0; turn < 16; ++turn) {
    const long count = read_some(socket_, buffer.data(), buffer.size());
    if (count < 0) return;
    if (count == 0) throw WireError("its connection closed in mid-run");
    heard_ = Clock::now();
    reader_.feed({buffer.data(), static_cast<std::size_t>(count)});
    take_all();
  }
}

void Spoke::take(const Frame& frame) {
  switch (frame.kind) {
    case FrameKind::heartbeat:
      return;
    case FrameKind::failure: {
      const Failure failure = read_failure(frame.body);
      set_failure(failure);
      end_stopped_peer(failure.process);
      const std::lock_guard lock(mutex_);
      announced_ = true;
      changed_.notify_all();
      return;
    }
    case FrameKind::leave: {
      BodyReader reader(frame.body);
      const int gone = static_cast<int>(reader.number(4));
      const std::lock_guard lock(mutex_);
      if (gone != process_ && gone >= 0 && gone < static_cast<int>(members_.size())) {
        left_first_ = left_first_ || failure() == nullptr;
        left_process_ = gone;
        gone_[static_cast<std::size_t>(gone)].store(true, std::memory_order_release);
      }
      changed_.notify_all();
      return;
    }
    case FrameKind::result: {
      Result result = read_result(frame.body);
      const std::lock_guard lock(mutex_);
      results_[result.channel].insert_or_assign(result.sequence, std::move(result));
      changed_.notify_all();
      return;
    }
    case FrameKind::all_left: {
      const std::lock_guard lock(mutex_);
      ending_ = all_left_ = true;
      changed_.notify_all();
      return;
    }
    case FrameKind::hello:
    case FrameKind::challenge:
    case FrameKind::proof:
    case FrameKind::refusal:
    case FrameKind::start:
    case FrameKind::contribution:
      throw WireError("it sent what only a newcomer or member sends");
  }
}

void Spoke::beat() {
  const auto now = Clock::now();
  // A gap in our own turns (suspended, or starved of a core) says nothing about process 0.
  const bool slept = now - last_turn_ > 3 * heartbeat_interval;
  if (slept) heard_ = now;
  last_turn_ = now;
  const bool late = now - heard_ > late_limit || slept || stopped_.pending();
  const auto stopped = [&] { return same_host(0) && stat_of(static_cast<int>(members_.front().pid)).stopped(); };
  if (now >= next_beat_ && process_ != 0 && stopped_.add(late && stopped(), now))
    throw WireError("it is stopped (SIGSTOP)");
  if (now - heard_ > silence_limit) throw WireError(format("no sign of life for %ld s", long{silence_limit.count()}));
  if (now < next_beat_) return;
  next_beat_ = now + heartbeat_interval;
  const std::unique_lock lock(send_mutex_, std::try_to_lock);
  // When another thread is sending, that is a sign of life too; a full kernel buffer waits for the next turn.
  if (lock && wait_ready(socket_, POLLOUT, now)) write_some(socket_, encode(FrameKind::heartbeat));
}

void Spoke::hub_lost(const char* how) {
  if (!ending_) {
    set_failure(
        {.process = 0, .code = ExitCode::internal, .sentence = describe(members_.front()) + " was lost: " + how});
  }
  if (!ending_) end_stopped_peer(0);
  shutdown(socket_.get(), SHUT_RDWR);  // wakes a thread that is sending
  const std::lock_guard lock(mutex_);
  disconnected_ = true;
  changed_.notify_all();
}

}  // namespace busbw

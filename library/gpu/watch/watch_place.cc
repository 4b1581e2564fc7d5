// What follows from what happens to a communicator's ranks.
#include "library/gpu/watch/watch_place.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "library/common/failure.h"
#include "library/gpu/watch/background.h"

namespace busbw::gpu {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// What a rank has sent before it ended is in its peers' memory: kernels that have everything they need get this long to
// find it.
constexpr milliseconds grace{200};
// By then every rank has learned of the loss, and none takes for a result what a kernel sends that is ended.
constexpr milliseconds margin{50};
// A job's programs end one after the other, often without destroying anything; only who is still there then is told.
constexpr seconds exit_grace{2};
constexpr seconds stranger_patience{5};
// A graph that a lost rank does not launch any more never ends; one behind the program's own work does, later.
constexpr seconds look_at_graphs{1};
constexpr int most_looks_at_graphs = 10;

// Never blocks: there are a few frames in a communicator's life, and a socket holds hundreds.
void send(const WatchConnection& connection, const Frame& frame) {
  if (connection.socket.valid()) ::send(connection.socket.get(), &frame, sizeof frame, MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace

void WatchSeat::Place::on_frame(WatchConnection& connection, const Frame& frame) {
  const bool root = rank == 0;
  if (root && connection.rank < 0) return on_hello(connection, frame);
  // Peers speak of themselves; rank 0 speaks of anyone.
  if (root && frame.rank != connection.rank) return on_nonsense(connection);
  switch (frame.kind) {
    case FrameKind::welcome:
      if (root) break;
      complete = true;
      return;
    case FrameKind::ended:
    case FrameKind::exited:
    case FrameKind::aborted:
    case FrameKind::failed:
      if (root) relay(frame, connection.rank);
      return lose(frame);
    case FrameKind::closed:
      closed.set(frame.rank);
      return root ? finish_if_all_closed() : void();
    case FrameKind::all_closed:
      if (root) break;
      closed.set();
      return left ? finish() : void();
    case FrameKind::hello:
      break;
  }
  on_nonsense(connection);
}

void WatchSeat::Place::on_hello(WatchConnection& connection, const Frame& frame) {
  const bool taken =
      std::any_of(connections.begin(), connections.end(), [&](const auto& other) { return other.rank == frame.rank; });
  const bool right = frame.kind == FrameKind::hello && frame.secret == address.secret && frame.rank > 0 &&
                     frame.rank < ranks && !taken;
  if (!right) {
    connection.socket = Descriptor();
    return;
  }
  connection.rank = frame.rank;
  const auto known = std::count_if(connections.begin(), connections.end(), [](const auto& c) { return c.rank > 0; });
  if (known != ranks - 1) return;
  complete = true;
  relay(make_frame(FrameKind::welcome, 0), -1);
}

void WatchSeat::Place::on_nonsense(WatchConnection& connection) {
  if (connection.rank >= 0 && !closed[std::size_t(connection.rank)]) {
    const Frame frame =
        make_frame(FrameKind::failed, connection.rank, "its connection to rank 0 carried something that is no message");
    if (rank == 0) relay(frame, connection.rank);
    lose(frame);
    closed.set(std::size_t(connection.rank));
  }
  connection.socket = Descriptor();
  connection.process = Descriptor();
  rank == 0 ? finish_if_all_closed() : finish();
}

void WatchSeat::Place::on_gone(WatchConnection& connection) {
  connection.socket = Descriptor();
  connection.process = Descriptor();
  if (connection.rank < 0) return;
  const auto gone = std::size_t(connection.rank);
  if (!closed[gone]) {
    const Frame frame = make_frame(FrameKind::ended, connection.rank);
    if (rank == 0) relay(frame, connection.rank);
    lose(frame);
    closed.set(gone);
  }
  // Without rank 0 nobody learns who else still holds memory; those who do keep it mapped until they end.
  if (rank == 0) return finish_if_all_closed();
  if (left) finish();
}

void WatchSeat::Place::lose(const Frame& frame) {
  if (!complete) broken = true;
  if (left) return;
  // Its process ends after its own last words.
  if (std::any_of(losses.begin(), losses.end(), [&](const Loss& loss) { return loss.rank == frame.rank; })) return;
  const auto due = WatchClock::now() + grace;
  const auto tell = frame.kind == FrameKind::exited ? due + exit_grace : due;
  losses.push_back({.rank = frame.rank,
                    .kind = frame.kind,
                    .text = frame.text,
                    .calls = frame.calls,
                    .due = due,
                    .end = due + margin,
                    .tell = tell});
}

// NCCL lets a rank go on that does not need a lost one any more (docs/decisions/0073). A rank is missing in a call that
// it has not done; where it did not say how many it has done, in one that is on its way here after the grace.
void WatchSeat::Place::judge(Loss& loss, WatchClock::time_point now) {
  if (loss.kind == FrameKind::failed || !standing || standing->blind) return miss(loss, now);
  if (loss.calls == unknown_calls) {
    loss.missing = Missing::asked;
    return ask(loss.rank);
  }
  // First, so that a call that is just being made sees it, or is seen here.
  health->limit(loss.calls, sentence(loss));
  if (standing->calls > loss.calls) return miss(loss, now);
  loss.missing = Missing::no;
  loss.due = now + look_at_graphs;
}

void WatchSeat::Place::on_answer(int lost, std::uint64_t calls, bool idle_now, WatchClock::time_point now) {
  if (left) return;
  for (Loss& loss : losses) {
    if (loss.rank != lost) continue;
    const bool first = loss.missing == Missing::asked;
    loss.busy = idle_now ? 0 : loss.busy + 1;
    if (first && idle_now) {
      health->limit(calls, sentence(loss));
      if (standing->calls > calls) return miss(loss, now);
      loss.missing = Missing::no;
      loss.due = now + look_at_graphs;
    } else if (first || loss.busy >= most_looks_at_graphs) {
      miss(loss, now);
    }
  }
}

void WatchSeat::Place::miss(Loss& loss, WatchClock::time_point now) {
  loss.missing = Missing::yes;
  loss.end = std::max(loss.end, now + margin);
  loss.tell = std::max(loss.tell, now);
}

WatchClock::time_point WatchSeat::Place::on_loss(Loss& loss, WatchClock::time_point now) {
  if (loss.missing == Missing::open) {
    if (loss.due > now) return loss.due;
    judge(loss, now);
  }
  if (loss.missing == Missing::no && standing->graphs) {
    if (loss.due > now) return loss.due;
    loss.due = now + look_at_graphs;
    ask(loss.rank);
    return loss.due;
  }
  if (loss.missing != Missing::yes) return WatchClock::time_point::max();
  health->report(ncclRemoteError, sentence(loss));
  if (loss.end > now) return loss.end;
  health->end_kernels();
  if (loss.tell > now) return loss.tell;
  health->tell();
  return WatchClock::time_point::max();
}

WatchClock::time_point WatchSeat::Place::on_time(WatchClock::time_point now) {
  auto next = now + seconds(60);
  for (WatchConnection& connection : connections) {
    if (rank != 0 || connection.rank >= 0 || !connection.socket.valid()) continue;
    const auto due = connection.since + stranger_patience;
    if (due <= now) connection.socket = Descriptor();
    next = std::min(next, due);
  }
  if (left) {
    if (release_due <= now) finish();
    return std::min(next, release_due);
  }
  if (own_end <= now) health->end_kernels();
  if (own_end > now) next = std::min(next, own_end);
  for (Loss& loss : losses) next = std::min(next, on_loss(loss, now));
  return next;
}

std::string WatchSeat::Place::sentence(const Loss& lost) const {
  const std::string name = std::size_t(lost.rank) < who.size() ? " (" + who[std::size_t(lost.rank)] + ")" : "";
  const std::string subject = text("rank %d%s of a communicator of %d ranks ", lost.rank, name.c_str(), ranks);
  const std::string advice = "; call ncclCommAbort on the communicator, its results are not valid from here on";
  switch (lost.kind) {
    case FrameKind::exited:
      return subject + "ended its program without destroying the communicator" + advice;
    case FrameKind::aborted:
      return subject + "aborted it (ncclCommAbort)" + advice;
    case FrameKind::failed:
      return subject + "cannot go on: " + lost.text + advice;
    case FrameKind::hello:
    case FrameKind::welcome:
    case FrameKind::ended:
    case FrameKind::closed:
    case FrameKind::all_closed:
      break;
  }
  return subject + "ended" + advice;
}

void WatchSeat::Place::announce(const Frame& frame) { relay(frame, -1); }

void WatchSeat::Place::abort(std::uint64_t calls) {
  Frame frame = make_frame(FrameKind::aborted, rank);
  frame.calls = calls;
  announce(frame);
  own_end = WatchClock::now() + grace + margin;
}

void WatchSeat::Place::say_goodbye(std::uint64_t calls) {
  Frame frame = make_frame(FrameKind::exited, rank);
  frame.calls = calls;
  announce(frame);
}

void WatchSeat::Place::relay(const Frame& frame, int except) {
  for (const WatchConnection& connection : connections) {
    if (connection.rank >= 0 && connection.rank != except) send(connection, frame);
  }
}

void WatchSeat::Place::leave(std::function<void()> to_release, std::chrono::milliseconds patience) {
  left = true;
  release = std::move(to_release);
  release_due = WatchClock::now() + patience;
  closed.set(std::size_t(rank));
  announce(make_frame(FrameKind::closed, rank));
  if (rank == 0) return finish_if_all_closed();
  const bool alone = connections.empty() || !connections.front().socket.valid();
  if (alone || closed.all()) finish();
}

void WatchSeat::Place::finish_if_all_closed() {
  if (!left || int(closed.count()) < ranks) return;
  relay(make_frame(FrameKind::all_closed, 0), -1);
  finish();
}

void WatchSeat::Place::finish() {
  if (!left || finished) return;
  finished = true;
  connections.clear();
  listener = Descriptor();
  // On a thread of its own: giving GPU memory back can wait for kernels, and the watch must not where there is a way.
  if (release && !in_background(release)) release();
  release = nullptr;
}

}  // namespace busbw::gpu

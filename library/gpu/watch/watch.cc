// The thread that looks after all communicators of this process, and its sockets.
#include "library/gpu/watch/watch.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

#include "library/common/failure.h"
#include "library/common/process.h"
#include "library/gpu/join/local_socket.h"
#include "library/gpu/watch/background.h"
#include "library/gpu/watch/watch_place.h"

namespace busbw::gpu {
namespace {

using Place = WatchSeat::Place;

// More than ranks can be; whoever comes beyond is turned away.
constexpr std::size_t most_connections = 4 * max_ranks;

Failure system_failure(const char* what) {
  return Failure(ncclSystemError, text("busbw's watch over ranks: %s failed with %s.", what, std::strerror(errno)));
}

// Messages arrive whole or not at all.
Descriptor new_socket() {
  Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) throw system_failure("socket");
  return socket;
}

ucred credentials(const Descriptor& socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) peer.uid = uid_t(-1);
  return peer;
}

// A child that a peer has forked keeps the peer's sockets open; the end of the peer itself shows here.
Descriptor watch_process(pid_t pid) {
  if (pid <= 0 || pid == ::getpid()) return Descriptor();
#ifdef SYS_pidfd_open
  return Descriptor(int(::syscall(SYS_pidfd_open, pid, 0)));
#else
  return Descriptor();
#endif
}

// Calls that are all done on this rank; the GPU is asked.
std::uint64_t calls_done(const std::shared_ptr<const WatchStanding>& standing, const std::function<bool()>& idle) {
  if (!standing || standing->blind) return unknown_calls;
  const std::uint64_t calls = standing->calls;
  return idle() && standing->calls == calls ? calls : unknown_calls;
}

class Watch {
 public:
  static Watch& of_this_process() {
    // Never destroyed: its thread lives as long as the process.
    static auto* watch = new Watch;
    return *watch;
  }

  void add(std::shared_ptr<Place> place) {
    {
      const std::lock_guard lock(guard_);
      if (!wakeup_.valid()) start();
      places_.push_back(std::move(place));
    }
    wake();
  }

  // `work` on a place, under the lock; then the thread looks again.
  template <class Work>
  void change(Work work) {
    {
      const std::lock_guard lock(guard_);
      work();
    }
    wake();
  }

  bool wait(const std::shared_ptr<Place>& place, WatchClock::time_point deadline) {
    std::unique_lock lock(guard_);
    changed_.wait_until(lock, deadline, [&] { return place->complete || place->broken; });
    return place->complete;
  }

 private:
  Watch() {
    ::pthread_atfork([] { of_this_process().guard_.lock(); }, [] { of_this_process().guard_.unlock(); },
                     [] { of_this_process().forget_in_child(); });
    std::atexit([] { of_this_process().say_goodbye(); });
  }

  void start() {
    wakeup_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wakeup_.valid()) throw system_failure("eventfd");
    if (start_thread([this, wakeup = wakeup_.get()] { run(wakeup); })) return;
    wakeup_ = Descriptor();
    errno = EAGAIN;
    throw system_failure("starting a thread");
  }

  void wake() {
    const std::lock_guard lock(guard_);
    const std::uint64_t one = 1;
    if (wakeup_.valid() && ::write(wakeup_.get(), &one, sizeof one) < 0) return;  // full: it is awake
  }

  struct Source {
    std::shared_ptr<Place> place;
    int connection;  // -1 for the listener
  };

  void run(int wakeup) {
    std::vector<pollfd> waiting;
    std::vector<Source> sources;
    for (;;) {
      const int timeout = collect(wakeup, waiting, sources);
      if (::poll(waiting.data(), waiting.size(), timeout) < 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        continue;
      }
      const std::lock_guard lock(guard_);
      std::uint64_t ignored;
      while (::read(wakeup, &ignored, sizeof ignored) > 0) {
      }
      for (std::size_t i = 1; i < waiting.size(); ++i) {
        if (waiting[i].revents != 0) look(sources[i - 1], waiting[i].fd);
      }
      changed_.notify_all();
    }
  }

  // Only this thread changes lists of connections of places that are known here, so that positions hold until look().
  int collect(int wakeup, std::vector<pollfd>& waiting, std::vector<Source>& sources) {
    const std::lock_guard lock(guard_);
    waiting.assign(1, {.fd = wakeup, .events = POLLIN, .revents = 0});
    sources.clear();
    const auto add = [&](const Descriptor& descriptor, const std::shared_ptr<Place>& place, int connection) {
      if (!descriptor.valid()) return;
      waiting.push_back({.fd = descriptor.get(), .events = POLLIN, .revents = 0});
      sources.push_back({place, connection});
    };
    const auto now = WatchClock::now();
    auto next = now + std::chrono::seconds(60);
    for (const std::shared_ptr<Place>& place : places_) {
      next = std::min(next, place->on_time(now));
      std::erase_if(place->connections, [&](const auto& c) { return place->rank == 0 && !c.socket.valid(); });
      add(place->listener, place, -1);
      for (int i = 0; i < int(place->connections.size()); ++i) {
        add(place->connections[std::size_t(i)].socket, place, i);
        add(place->connections[std::size_t(i)].process, place, i);
      }
    }
    std::erase_if(places_, [](const auto& place) { return place->finished; });
    return int(std::chrono::ceil<std::chrono::milliseconds>(next - now).count());
  }

  void look(const Source& source, int descriptor) {
    Place& place = *source.place;
    if (place.finished) return;
    if (source.connection < 0) return accept(place);
    WatchConnection& connection = place.connections[std::size_t(source.connection)];
    if (!connection.socket.valid()) return;
    // Its last words come before its end.
    const bool ended = descriptor == connection.process.get();
    while (connection.socket.valid() && read(place, connection)) {
    }
    if (ended && !place.finished && connection.socket.valid()) place.on_gone(connection);
  }

  void accept(Place& place) {
    Descriptor socket(::accept4(place.listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) return;
    const ucred peer = credentials(socket);
    if (peer.uid != ::geteuid() || place.connections.size() >= most_connections) return;
    WatchConnection connection;
    connection.process = watch_process(peer.pid);
    connection.socket = std::move(socket);
    place.connections.push_back(std::move(connection));
  }

  // One message; false when there is no more to read.
  bool read(Place& place, WatchConnection& connection) {
    unsigned char bytes[sizeof(Frame)];
    const ssize_t got = ::recv(connection.socket.get(), bytes, sizeof bytes, MSG_DONTWAIT | MSG_TRUNC);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (got <= 0) {
      place.on_gone(connection);
      return false;
    }
    const std::optional<Frame> frame = parse_frame(bytes, std::size_t(got));
    frame ? place.on_frame(connection, *frame) : place.on_nonsense(connection);
    return !place.finished;
  }

  // A forked child is no rank, and has no thread of ours: it only must not keep the parent's connections open.
  void forget_in_child() {
    for (const std::shared_ptr<Place>& place : places_) {
      place->connections.clear();
      place->listener = Descriptor();
      place->finished = true;
    }
    places_.clear();
    wakeup_ = Descriptor();
    guard_.unlock();
  }

  // The thread that ends the process may hold the lock itself: a signal's handler may call exit.
  bool lock_at_the_end(std::unique_lock<std::mutex>& lock) {
    for (int i = 0; i < 100 && !lock.try_lock(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return lock.owns_lock();
  }

  void say_goodbye() {
    struct Goodbye {
      std::shared_ptr<Place> place;
      std::shared_ptr<const WatchStanding> standing;
      std::function<bool()> idle;
      std::uint64_t calls = unknown_calls;
    };
    std::vector<Goodbye> all;
    std::unique_lock lock(guard_, std::defer_lock);
    if (!lock_at_the_end(lock)) return;
    for (const std::shared_ptr<Place>& place : places_) {
      if (!place->left) all.push_back({place, place->standing, place->idle});
    }
    lock.unlock();
    for (Goodbye& one : all) one.calls = calls_done(one.standing, one.idle);
    if (!lock_at_the_end(lock)) return;
    for (const Goodbye& one : all) {
      if (!one.place->left) one.place->say_goodbye(one.calls);
    }
  }

  std::mutex guard_;
  std::condition_variable changed_;
  Descriptor wakeup_;
  std::vector<std::shared_ptr<Place>> places_;
};

std::shared_ptr<Place> new_place(int rank, int ranks, std::shared_ptr<Health> health) {
  auto place = std::make_shared<Place>();
  place->rank = rank;
  place->ranks = ranks;
  place->health = std::move(health);
  return place;
}

}  // namespace

std::unique_ptr<WatchSeat> WatchSeat::listen(int ranks, std::shared_ptr<Health> health) {
  auto place = new_place(0, ranks, std::move(health));
  fill_random(&place->address.name, sizeof place->address.name);
  fill_random(place->address.secret.data(), place->address.secret.size());
  place->listener = new_socket();
  sockaddr_un address{};
  const socklen_t size = local_socket_address("gpu", place->address.name, address);
  if (::bind(place->listener.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      ::listen(place->listener.get(), int(most_connections)) != 0) {
    throw system_failure("listening on a local socket");
  }
  Watch::of_this_process().add(place);
  return std::unique_ptr<WatchSeat>(new WatchSeat(std::move(place)));
}

std::unique_ptr<WatchSeat> WatchSeat::connect(const WatchAddress& where, int rank, int ranks,
                                              std::shared_ptr<Health> health) {
  auto place = new_place(rank, ranks, std::move(health));
  place->address = where;
  WatchConnection connection;
  connection.socket = new_socket();
  connection.rank = 0;
  sockaddr_un address{};
  const socklen_t size = local_socket_address("gpu", where.name, address);
  if (::connect(connection.socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    throw system_failure("connecting to rank 0");
  }
  const ucred peer = credentials(connection.socket);
  if (peer.uid != ::geteuid()) throw Failure(ncclSystemError, "busbw's watch over ranks: rank 0 is another user's.");
  connection.process = watch_process(peer.pid);
  Frame hello = make_frame(FrameKind::hello, rank);
  hello.secret = where.secret;
  if (::send(connection.socket.get(), &hello, sizeof hello, MSG_NOSIGNAL) != ssize_t(sizeof hello)) {
    throw system_failure("greeting rank 0");
  }
  place->connections.push_back(std::move(connection));
  Watch::of_this_process().add(place);
  return std::unique_ptr<WatchSeat>(new WatchSeat(std::move(place)));
}

WatchSeat::~WatchSeat() {
  Watch::of_this_process().change([&] {
    if (!place_->left && !place_->finished) place_->leave(nullptr, std::chrono::milliseconds(0));
  });
}

WatchAddress WatchSeat::address() const { return place_->address; }

void WatchSeat::introduce(std::vector<std::string> who) {
  Watch::of_this_process().change([&] { place_->who = std::move(who); });
}

bool WatchSeat::wait_until_complete(WatchClock::time_point deadline) {
  return Watch::of_this_process().wait(place_, deadline);
}

void WatchSeat::attend(std::shared_ptr<const WatchStanding> standing, std::function<bool()> idle) {
  const std::weak_ptr<Place> weak = place_;
  const auto ask = [weak, standing, idle](int lost) {
    const bool asked = in_background([weak, standing, idle, lost] {
      const std::uint64_t calls = standing->calls;
      const bool idle_now = idle() && standing->calls == calls;
      const std::shared_ptr<Place> place = weak.lock();
      if (place) Watch::of_this_process().change([&] { place->on_answer(lost, calls, idle_now, WatchClock::now()); });
    });
    const std::shared_ptr<Place> place = asked ? nullptr : weak.lock();
    if (place) place->on_answer(lost, 0, false, WatchClock::now());
  };
  Watch::of_this_process().change([&] {
    place_->standing = std::move(standing);
    place_->idle = std::move(idle);
    place_->ask = ask;
  });
}

void WatchSeat::announce_abort() {
  const std::uint64_t calls = calls_done(place_->standing, place_->idle);
  Watch::of_this_process().change([&] { place_->abort(calls); });
}

void WatchSeat::announce_failure(const std::string& reason) {
  Watch::of_this_process().change([&] { place_->announce(make_frame(FrameKind::failed, place_->rank, reason)); });
}

void WatchSeat::leave(std::function<void()> release, std::chrono::milliseconds patience) {
  Watch::of_this_process().change([&] {
    if (!place_->left && !place_->finished) place_->leave(std::move(release), patience);
  });
}

}  // namespace busbw::gpu

// Threads in the background, and an exit handler that brings them to rest.
#include "library/gpu/watch/background.h"

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

namespace busbw::gpu {
namespace {

// A single question to the driver takes no longer.
constexpr std::chrono::seconds patience{1};

thread_local bool in_the_background = false;

class Background {
 public:
  static Background& of_this_process() {
    // Never destroyed: its threads may go on as long as the process.
    static auto* const all = new Background;
    return *all;
  }

  void begin() {
    const std::lock_guard lock(guard_);
    ++busy_;
  }
  void end() {
    {
      const std::lock_guard lock(guard_);
      --busy_;
    }
    changed_.notify_all();
  }
  bool ends() const { return ends_; }
  void rest() {
    std::unique_lock lock(guard_);
    --busy_;
    changed_.notify_all();
    changed_.wait(lock, [] { return false; });
  }

 private:
  // The first thread is started when CUDA is in use, so that this handler runs before CUDA's.
  Background() {
    ::pthread_atfork(nullptr, nullptr, [] { of_this_process().forget_in_child(); });
    std::atexit([] { of_this_process().bring_to_rest(); });
  }

  // A forked child has none of the threads, one of which may have held the lock. Nobody holds it for the fork: the
  // watch starts threads under a lock of its own, which it holds for a fork too, and the order of the two is not known.
  void forget_in_child() {
    new (&guard_) std::mutex;
    new (&changed_) std::condition_variable;
    busy_ = 0;
  }

  void bring_to_rest() {
    std::unique_lock lock(guard_);
    ends_ = true;
    changed_.wait_for(lock, patience, [&] { return busy_ == 0; });
  }

  std::mutex guard_;
  std::condition_variable changed_;
  int busy_ = 0;
  std::atomic<bool> ends_{false};
};

void* run_and_forget(void* kept) {
  const std::unique_ptr<std::function<void()>> body(static_cast<std::function<void()>*>(kept));
  (*body)();
  return nullptr;
}

}  // namespace

bool start_thread(std::function<void()> body) {
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  // Detached from the first: a process that ends between the start of a thread and its detaching leaks it.
  pthread_attr_t detached;
  bool started = ::pthread_attr_init(&detached) == 0;
  if (started) {
    auto kept = std::make_unique<std::function<void()>>(std::move(body));
    pthread_t thread;
    started = ::pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED) == 0 &&
              ::pthread_create(&thread, &detached, run_and_forget, kept.get()) == 0;
    if (started) static_cast<void>(kept.release());
    ::pthread_attr_destroy(&detached);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

bool in_background(std::function<void()> body) {
  Background& background = Background::of_this_process();
  background.begin();
  const bool started = start_thread([&background, body = std::move(body)]() mutable {
    in_the_background = true;
    rest_if_the_process_ends();
    body();
    // With what it holds.
    body = nullptr;
    background.end();
  });
  if (!started) background.end();
  return started;
}

void rest_if_the_process_ends() {
  if (in_the_background && process_ends()) Background::of_this_process().rest();
}

bool process_ends() { return Background::of_this_process().ends(); }

}  // namespace busbw::gpu

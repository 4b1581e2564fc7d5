// Waiting for work, doing it, and telling when it was done.
#include "engine/platform/product_thread.h"

#include <utility>

namespace busbw {

ProductThread::ProductThread(std::function<void()> prepare, std::function<void()> multiply,
                             std::function<void()> complete)
    : prepare_(std::move(prepare)),
      multiply_(std::move(multiply)),
      complete_(std::move(complete)),
      worker_([this] { work(); }) {}

ProductThread::~ProductThread() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  worker_.join();
}

void ProductThread::start(int count) {
  {
    const std::lock_guard lock(mutex_);
    begin_ = Clock::now();
    left_to_do_ = count;
    is_done_ = false;
  }
  wake_.notify_all();
}

Seconds ProductThread::finish() {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [this] { return is_done_; });
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  return end_ - begin_;
}

void ProductThread::work() {
  std::unique_lock lock(mutex_);
  bool is_prepared = false;
  while (true) {
    wake_.wait(lock, [this] { return stop_ || !is_done_; });
    if (stop_) return;
    try {
      if (!std::exchange(is_prepared, true)) prepare_();
      do_some(lock);
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      failure_ = std::current_exception();
    }
    end_ = Clock::now();
    is_done_ = true;
    wake_.notify_all();
  }
}

void ProductThread::do_some(std::unique_lock<std::mutex>& lock) {
  while (left_to_do_ > 0 && !stop_) {
    lock.unlock();
    multiply_();
    lock.lock();
    --left_to_do_;
  }
  lock.unlock();
  complete_();
  lock.lock();
}

}  // namespace busbw

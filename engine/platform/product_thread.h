// The thread that computes products beside what a rank does.
#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "engine/core/units.h"

namespace busbw {

class ProductThread {
 public:
  // All in that thread: `prepare` once, `multiply` for each product, `complete` after the last of them. What `multiply`
  // and `complete` throw, `finish` throws.
  ProductThread(std::function<void()> prepare, std::function<void()> multiply, std::function<void()> complete);
  ~ProductThread();
  ProductThread(const ProductThread&) = delete;
  ProductThread& operator=(const ProductThread&) = delete;

  // Begins so many products, one after the other, and returns at once.
  void start(int count);
  // Waits for them. Seconds from `start` until `complete` returned.
  Seconds finish();

 private:
  using Clock = std::chrono::steady_clock;
  void work();
  void do_some(std::unique_lock<std::mutex>& lock);

  const std::function<void()> prepare_, multiply_, complete_;
  std::mutex mutex_;
  std::condition_variable wake_;
  Clock::time_point begin_{}, end_{};
  int left_to_do_ = 0;
  bool is_done_ = true;
  bool stop_ = false;
  std::exception_ptr failure_;
  std::thread worker_;  // last: it uses all of the above
};

}  // namespace busbw

// The thread that computes products, and the product itself: float32, rows of the right matrix stay in the caches.
#include "engine/platform/host_product.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "engine/platform/affinity.h"

namespace busbw {
namespace {

using Clock = std::chrono::steady_clock;

class HostProduct final : public Product {
 public:
  HostProduct(const ProductShape& shape, std::vector<int> cpus)
      : shape_(shape),
        left_(size(shape.rows, shape.inner), 0.5F),
        right_(size(shape.inner, shape.columns), 0.25F),
        out_(size(shape.rows, shape.columns)),
        worker_([this, cpus = std::move(cpus)] { work(cpus); }) {}

  ~HostProduct() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    worker_.join();
  }
  HostProduct(const HostProduct&) = delete;
  HostProduct& operator=(const HostProduct&) = delete;

  void start(int count) override {
    {
      const std::lock_guard lock(mutex_);
      begin_ = Clock::now();
      left_to_do_ = count;
    }
    wake_.notify_all();
  }

  Seconds finish() override {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return left_to_do_ == 0; });
    return end_ - begin_;
  }

 private:
  static std::size_t size(int one, int other) {
    return static_cast<std::size_t>(one) * static_cast<std::size_t>(other);
  }

  void work(const std::vector<int>& cpus) {
    if (!cpus.empty()) bind_this_thread(cpus);
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [this] { return stop_ || left_to_do_ > 0; });
      if (stop_) return;
      while (left_to_do_ > 0 && !stop_) {
        lock.unlock();
        multiply();
        lock.lock();
        --left_to_do_;
      }
      end_ = Clock::now();
      wake_.notify_all();
    }
  }

  void multiply() {
    const auto columns = static_cast<std::size_t>(shape_.columns), inner = static_cast<std::size_t>(shape_.inner);
    for (std::size_t row = 0; row < static_cast<std::size_t>(shape_.rows); ++row) {
      float* __restrict out = &out_[row * columns];
      for (std::size_t column = 0; column < columns; ++column) out[column] = 0;
      for (std::size_t i = 0; i < inner; ++i) {
        const float factor = left_[row * inner + i];
        const float* __restrict right = &right_[i * columns];
        for (std::size_t column = 0; column < columns; ++column) out[column] += factor * right[column];
      }
    }
  }

  const ProductShape shape_;
  std::vector<float> left_, right_, out_;
  std::mutex mutex_;
  std::condition_variable wake_;
  Clock::time_point begin_{}, end_{};
  int left_to_do_ = 0;
  bool stop_ = false;
  std::thread worker_;  // last: it uses all of the above
};

}  // namespace

std::unique_ptr<Product> make_host_product(const ProductShape& shape, std::vector<int> cpus) {
  return std::make_unique<HostProduct>(shape, std::move(cpus));
}

}  // namespace busbw

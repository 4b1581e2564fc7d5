// Nanoseconds that a cache line takes from processor 0 to processor 1 and back, the quickest of some tries: about 110
// between cores that share a third-level cache, several hundred between others.
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

namespace {

constexpr unsigned trips = 20000;
struct alignas(256) Line {
  std::atomic<unsigned> value{0};
};
Line there, back;

void stay_on(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

void answer(unsigned first) {
  stay_on(1);
  for (unsigned i = first; i < first + trips; ++i) {
    while (there.value.load(std::memory_order_acquire) != i) {
    }
    back.value.store(i, std::memory_order_release);
  }
}

double one_try(unsigned first) {
  std::thread other(answer, first);
  stay_on(0);
  const auto begin = std::chrono::steady_clock::now();
  for (unsigned i = first; i < first + trips; ++i) {
    there.value.store(i, std::memory_order_release);
    while (back.value.load(std::memory_order_acquire) != i) {
    }
  }
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
  other.join();
  return took.count() / trips;
}

}  // namespace

int main() {
  double quickest = one_try(1);
  for (unsigned i = 1; i < 5; ++i) quickest = std::min(quickest, one_try(1 + i * trips));
  std::printf("%.0f\n", quickest);
}

// What lasts how long alone and together; the ratios are the reader's (python/busbw/analysis/overlap.py).
#include "engine/measure/beside.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>
#include <utility>

#include "engine/measure/batch.h"

namespace busbw {
namespace {

constexpr double target_seconds = 0.010;
constexpr int most_calls = 100'000, fewest_calls = 4, fewest_products = 2;

struct Lasted {
  double products = 0, calls = 0;  // seconds from a common start, of the slowest rank
};

double slowest(const Timing& timing, double mine) {
  const std::vector<double> all = timing.barrier.all_gather(mine);
  return *std::max_element(all.begin(), all.end());
}

Lasted run(const Timing& timing, const Products& products, int product_count, int call_count) {
  Lasted mine;
  {
    std::optional<Watchdog::Wait> wait;
    if (timing.watchdog != nullptr) wait.emplace(*timing.watchdog, timing.thread, "products beside calls");
    timing.barrier.line_up();
    const Seconds begin = timing.clock.now();
    if (product_count > 0)
      for (const auto& product : products) product->start(product_count);
    for (int call = 0; call < call_count; ++call) start_call(timing, call);
    timing.work.complete("calls beside products");
    mine.calls = (timing.clock.now() - begin).count();
    if (product_count > 0)
      for (const auto& product : products) mine.products = std::max(mine.products, product->finish().count());
  }
  return {slowest(timing, mine.products), call_count > 0 ? slowest(timing, mine.calls) : 0};
}

int rounded(double count, int least) {
  return static_cast<int>(std::clamp(std::round(count), double(least), double(most_calls)));
}

// Calls and products, the same on all ranks, since all have the same figures.
std::pair<int, int> amounts(const Timing& timing, const Products& products, Bytes bytes) {
  for (const BesideAmount& given : timing.plan.beside->amounts)
    if (given.bytes == bytes.count) return {given.calls, given.products};
  run(timing, products, 1, 1);
  const double one_product = std::max(run(timing, products, fewest_products, 0).products / fewest_products, 1e-9);
  const double one_call = std::max(run(timing, products, 0, fewest_calls).calls / fewest_calls, 1e-9);
  const double wanted = std::max(target_seconds, fewest_products * one_product);
  const int calls = rounded(wanted / one_call, fewest_calls);
  return {calls, rounded(one_call * calls / one_product, fewest_products)};
}

}  // namespace

BesideResult measure_beside(const Timing& timing, const Products& products, Bytes bytes) {
  BesideResult result;
  std::tie(result.calls, result.products) = amounts(timing, products, bytes);
  constexpr int fewest_repetitions = 3;
  for (int i = 0; i < std::max(fewest_repetitions, timing.plan.batches); ++i) {
    result.products_alone_us.push_back(1e6 * run(timing, products, result.products, 0).products);
    result.calls_alone_us.push_back(1e6 * run(timing, products, 0, result.calls).calls);
    const Lasted both = run(timing, products, result.products, result.calls);
    result.products_beside_us.push_back(1e6 * both.products);
    result.calls_beside_us.push_back(1e6 * both.calls);
  }
  return result;
}

}  // namespace busbw

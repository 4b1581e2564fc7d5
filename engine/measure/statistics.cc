// Order statistics of samples; the source of each formula stands in the header.
#include "engine/measure/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace busbw {
namespace {

// P(Binomial(n, 1/2) < k).
double binomial_half_below(int n, int k) {
  double term = std::pow(0.5, n);
  double sum = 0;
  for (int i = 0; i < k; ++i) {
    sum += term;
    term *= static_cast<double>(n - i) / (i + 1);
  }
  return sum;
}

// Beyond this the exact sum underflows; the normal approximation is then good to a thousandth.
constexpr int exact_limit = 900;

int rank_of_interval(int n, double level) {
  constexpr double z95 = 1.959964;
  const double by_normal = (n - z95 * std::sqrt(n)) / 2;
  if (n > exact_limit) return static_cast<int>(std::floor(by_normal));
  // The normal approximation is never two off; from there on it is counted exactly.
  int k = level <= 0.95 ? std::max(0, static_cast<int>(by_normal) - 2) : 0;
  while (k + 1 <= n / 2 && 1 - 2 * binomial_half_below(n, k + 1) >= level) ++k;
  return k;
}

double median_of_sorted(const std::vector<double>& sorted) {
  const std::size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

Interval interval_of_sorted(const std::vector<double>& sorted, double level) {
  Interval interval{.level = level, .batches = static_cast<int>(sorted.size())};
  if (sorted.empty()) return interval;
  interval.median = median_of_sorted(sorted);
  const int k = rank_of_interval(static_cast<int>(sorted.size()), level);
  interval.low = k >= 1 ? sorted[static_cast<std::size_t>(k - 1)] : sorted.front();
  interval.high = k >= 1 ? sorted[sorted.size() - static_cast<std::size_t>(k)] : sorted.back();
  return interval;
}

double nearest_rank(const std::vector<double>& sorted, double percent) {
  const auto n = static_cast<double>(sorted.size());
  const auto index = static_cast<std::size_t>(std::max(0.0, std::ceil(n * percent / 100) - 1));
  return sorted[std::min(index, sorted.size() - 1)];
}

}  // namespace

double median_of(std::vector<double> samples) {
  if (samples.empty()) return 0;
  std::sort(samples.begin(), samples.end());
  return median_of_sorted(samples);
}

int fewest_samples(double level) {
  int n = 2;
  while (rank_of_interval(n, level) < 1) ++n;
  return n;
}

Interval median_interval(std::vector<double> samples, double level) {
  std::sort(samples.begin(), samples.end());
  return interval_of_sorted(samples, level);
}

void GrowingSamples::add(double sample) {
  sorted_.insert(std::upper_bound(sorted_.begin(), sorted_.end(), sample), sample);
}

Interval GrowingSamples::median_interval(double level) const { return interval_of_sorted(sorted_, level); }

IterationStatistics summarize_iterations(std::vector<double> times_us, int skipped) {
  IterationStatistics s;
  s.skipped = skipped;
  s.times = times_us;
  std::vector<double> sorted(times_us.begin() + std::min<std::ptrdiff_t>(skipped, std::ssize(times_us)),
                             times_us.end());
  if (sorted.empty()) return s;
  std::sort(sorted.begin(), sorted.end());
  const auto n = static_cast<double>(sorted.size());
  s.min = sorted.front();
  s.max = sorted.back();
  s.mean = std::accumulate(sorted.begin(), sorted.end(), 0.0) / n;
  s.p50 = sorted[sorted.size() / 2];
  s.p95 = nearest_rank(sorted, 95);
  s.p99 = nearest_rank(sorted, 99);
  double squares = 0;
  for (const double t : sorted) squares += (t - s.mean) * (t - s.mean);
  s.stdev = std::sqrt(squares / n);
  s.cv_percent = s.mean > 0 ? s.stdev / s.mean * 100 : 0;
  return s;
}

double combine(const std::vector<double>& by_thread, Average average) {
  switch (average) {
    case Average::rank0:
      return by_thread.front();
    case Average::mean:
      return std::accumulate(by_thread.begin(), by_thread.end(), 0.0) / double(by_thread.size());
    case Average::min:
      return *std::min_element(by_thread.begin(), by_thread.end());
    case Average::max:
      return *std::max_element(by_thread.begin(), by_thread.end());
  }
  return 0;
}

}  // namespace busbw

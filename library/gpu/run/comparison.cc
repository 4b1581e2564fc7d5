// Two samples of few blocks each, by ranks: one block may be held up by anything.
#include "library/gpu/run/comparison.h"

#include <algorithm>
#include <cstddef>

namespace busbw::gpu {
namespace {

// A difference that is less is none: then the way that everybody knows is taken.
constexpr double least_gain = 0.005;

// By trials made: so many pairs may speak for the other way. Of 4, 16 and 36, which chance alone brings in 33, 11 and
// 9 % of trials where both ways are alike.
constexpr std::array<std::size_t, Comparison::most_trials - 1> most_against{0, 2, 7};

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

}  // namespace

void Comparison::add(const BlockTimes& blocks) {
  for (const std::size_t i : Trial::timed) (Trial::ways[i] == Trial::Way::ours ? ours_ : nccl_).push_back(blocks[i]);
}

bool Comparison::sure() const {
  const std::size_t trials = nccl_.size() / (Trial::timed.size() / 2);
  if (trials == 0 || trials >= std::size_t(most_trials)) return trials > 0;
  std::size_t for_nccl = 0;
  for (const double nccl : nccl_) {
    for (const double ours : ours_) for_nccl += nccl < ours;
  }
  return std::min(for_nccl, nccl_.size() * ours_.size() - for_nccl) <= most_against[trials - 1];
}

bool Comparison::ours_are_faster() const {
  std::vector<double> ratios;
  for (const double nccl : nccl_) {
    for (const double ours : ours_) ratios.push_back(ours / nccl);
  }
  return !ratios.empty() && median(std::move(ratios)) < 1 - least_gain;
}

double Comparison::nccl() const { return median(nccl_); }
double Comparison::ours() const { return median(ours_); }

}  // namespace busbw::gpu

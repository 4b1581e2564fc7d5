// Counts of BUSBW_CHECK=1, and their line.
#include "library/gpu/check/ledger.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "library/common/failure.h"

namespace busbw::gpu {
namespace {

// Reasons name sizes and ranks: a long program may have many.
constexpr std::size_t most_reasons = 12;
constexpr const char* other_reasons = "other reasons";
// For checks that are still in a stream when the process ends.
constexpr int patience_ms = 1000;

unsigned long long number(std::uint64_t value) { return value; }

// "3 captured in a graph; 1 ...", the most frequent first.
std::string list(const std::map<std::string, std::uint64_t>& reasons) {
  std::vector<std::pair<std::string, std::uint64_t>> sorted(reasons.begin(), reasons.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string all;
  for (const auto& [reason, count] : sorted) {
    all += text("%s%llu: %s", all.empty() ? "" : "; ", number(count), reason.c_str());
  }
  return all;
}

}  // namespace

Ledger& Ledger::of_this_process() {
  static auto* const ledger = new Ledger;
  return *ledger;
}

void Ledger::open() {
  if (open_.exchange(true)) return;
  {
    const std::lock_guard lock(guard_);
    process_ = ::getpid();
  }
  std::atexit(print_at_end);
}

void Ledger::add(Reasons& reasons, const std::string& reason) {
  const bool room = reasons.size() < most_reasons || reasons.contains(reason);
  ++reasons[room ? reason : other_reasons];
}

void Ledger::hand_on(const std::string& reason) {
  const std::lock_guard lock(guard_);
  add(handed_on_, reason);
}

void Ledger::take() {
  const std::lock_guard lock(guard_);
  ++taken_;
}

void Ledger::skip(const std::string& reason) {
  const std::lock_guard lock(guard_);
  ++skipped_;
  add(not_checked_, reason);
}

void Ledger::agree(bool whole) {
  const std::lock_guard lock(guard_);
  ++agreed_;
  if (!whole) ++partly_;
}

void Ledger::differ(const std::string& sentence) {
  const std::lock_guard lock(guard_);
  if (++differed_ > 1) return;
  first_ = sentence;
  std::fprintf(stderr, "busbw check: pid %d: a result differs from NCCL's: %s\n", int(::getpid()), sentence.c_str());
}

bool Ledger::complete() const {
  const std::lock_guard lock(guard_);
  return taken_ == agreed_ + differed_ + skipped_;
}

std::string Ledger::summary() const {
  const std::lock_guard lock(guard_);
  const std::uint64_t checked = agreed_ + differed_;
  std::string line = text("busbw check: pid %d: busbw took %llu calls", int(::getpid()), number(taken_));
  if (checked > 0) {
    line += text(" and compared %llu with NCCL: ", number(checked));
    line += differed_ == 0 ? "all agree" : text("%llu DIFFER, the first: ", number(differed_)) + first_;
    if (partly_ > 0) line += text(" (a part of each vector in %llu of them)", number(partly_));
  } else {
    line += " and compared none";
  }
  line += ".";
  const std::uint64_t unfinished = taken_ - checked - skipped_;
  Reasons not_checked = not_checked_;
  if (unfinished > 0) not_checked["the process ended first"] += unfinished;
  if (!not_checked.empty()) {
    line += text(" Not compared: %llu (", number(taken_ - checked)) + list(not_checked) + ").";
  }
  std::uint64_t handed_on = 0;
  for (const auto& [reason, count] : handed_on_) handed_on += count;
  line += text(" NCCL did %llu calls", number(handed_on));
  line += handed_on_.empty() ? "." : " (" + list(handed_on_) + ").";
  return line;
}

void Ledger::print_at_end() {
  const Ledger& ledger = of_this_process();
  if (ledger.process_ != ::getpid()) return;
  for (int waited = 0; waited < patience_ms && !ledger.complete(); ++waited) ::usleep(1000);
  std::fprintf(stderr, "%s\n", ledger.summary().c_str());
}

void Ledger::clear() {
  const std::lock_guard lock(guard_);
  taken_ = agreed_ = partly_ = differed_ = skipped_ = 0;
  handed_on_.clear();
  not_checked_.clear();
  first_.clear();
}

}  // namespace busbw::gpu

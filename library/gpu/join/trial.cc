// What the ranks write down about trials, and what follows for a call.
#include "library/gpu/join/trial.h"

namespace busbw::gpu {

// A start point is settled by the first rank that comes to it, before that one decides on a call behind it. So whatever
// a rank has seen there holds.
void Trial::come_to(std::uint64_t call, const Proposal& proposal) {
  for (; next_point_ < start_points && start_point(next_point_) <= call; ++next_point_) {
    std::atomic<std::uint32_t>& word = words_.starts[next_point_];
    if (word.load() != 0) continue;
    const std::uint32_t block = proposed_at(start_point(next_point_), proposal);
    std::uint32_t found = 0;
    word.compare_exchange_strong(found, block > no_start ? block : no_start);
  }
}

std::uint32_t Trial::proposed_at(std::uint64_t call, const Proposal& proposal) const {
  const Plan before = plan(call - 1);
  if (before.trial < 0) return proposal(false);
  const std::uint64_t blocks = (call - before.first) / before.block;
  if (before.trial + 1 == trials || blocks < ways.size()) return 0;
  const bool again = verdict(before, call) == Vote::again;
  return again || blocks >= next_from ? proposal(again) : 0;
}

Trial::Plan Trial::plan(std::uint64_t call) const {
  const std::uint32_t known = known_.load(std::memory_order_relaxed);
  int point = int(known & 0xffff);
  int trial = int(known >> 16);
  // A call before it: from the beginning.
  if (trial > 0 && start_point(point) > call) point = trial = 0;
  Plan plan;
  if (trial > 0) plan = {trial - 1, start_point(point), words_.starts[point].load()};
  for (point += trial > 0; point < start_points && start_point(point) <= call; ++point) {
    const std::uint32_t block = words_.starts[point].load();
    if (block <= no_start) continue;
    plan = {trial++, start_point(point), block};
    known_.store(std::uint32_t(trial) << 16 | std::uint32_t(point), std::memory_order_relaxed);
  }
  return plan;
}

Trial::Way Trial::way(std::uint64_t call) const {
  const Plan plan = this->plan(call);
  if (plan.trial < 0) return call < patience ? Way::as_voted : Way::nccl;
  const std::uint64_t block = (call - plan.first) / plan.block;
  if (block < ways.size()) return ways[block];
  return verdict(plan, call) == Vote::ours ? Way::ours : Way::nccl;
}

Trial::Vote Trial::verdict(const Plan& plan, std::uint64_t call) const {
  const std::uint64_t block = (call - plan.first) / plan.block;
  std::size_t point = verdict_points.size() - 1;
  while (verdict_points[point] > block) --point;
  return counted(plan.trial, point);
}

Trial::Vote Trial::counted(int trial, std::size_t point) const {
  std::atomic<std::uint32_t>& written = words_.verdicts[trial][point];
  if (const std::uint32_t known = written.load(); known != 0) return Vote(known);
  bool missing = false, refused = false, again = false;
  for (int rank = 0; rank < ranks_; ++rank) {
    const Vote vote = Vote(words_.votes[trial][rank].load());
    missing = missing || vote == Vote::none;
    again = again || vote == Vote::again;
    refused = refused || vote != Vote::ours;
  }
  const Vote agreed = !missing && again ? Vote::again : refused ? Vote::nccl : Vote::ours;
  std::uint32_t found = 0;
  written.compare_exchange_strong(found, std::uint32_t(agreed));
  return found == 0 ? agreed : Vote(found);
}

}  // namespace busbw::gpu

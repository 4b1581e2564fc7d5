// Readings, exchanged between processes as one line for each rank.
#include "engine/measure/context.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <sstream>
#include <tuple>

namespace busbw {
namespace {

using SteadyTime = std::chrono::steady_clock;

// Readings may take a twentieth of the time.
constexpr double shortest_gap = 20;
// What filling, checking and meeting add to even the shortest case.
constexpr double around_a_case_seconds = 5e-4;

double seconds_of(const Plan& plan, const CaseResult& result) {
  // Without --precision the batches share the iterations, or those beside them last some milliseconds together.
  const bool many = plan.precision && !result.batches_us.empty();
  const double batches = many ? static_cast<double>(result.batches_us.front().size()) : 1.0;
  const double calls = static_cast<double>(result.iterations) * plan.aggregated * std::max(1, plan.graph_launches);
  return around_a_case_seconds + batches * calls * result.time_us * 1e-6;
}

void forget_traffic(GpuSnapshot& snapshot) {
  snapshot.nvlink_sent_bytes.reset();
  snapshot.nvlink_received_bytes.reset();
  snapshot.pcie_sent_bytes.reset();
  snapshot.pcie_received_bytes.reset();
}

}  // namespace

ContextReader::ContextReader(Rendezvous& rendezvous, const std::vector<RankDescription>& ranks, int engines,
                             bool every_case, Read read)
    : rendezvous_(rendezvous), ranks_(ranks), every_case_(every_case), read_(std::move(read)) {
  std::map<std::tuple<std::string, std::string>, std::set<long>> processes;
  for (const RankDescription& rank : ranks) processes[{rank.host, rank.bus_id}].insert(rank.pid);
  for (const RankDescription& rank : ranks)
    own_processes_.push_back(engines * static_cast<int>(processes[{rank.host, rank.bus_id}].size()));
}

// The first line is the time that the reading took, then one line for each rank of the process.
std::vector<GpuSnapshot> ContextReader::read_all() {
  const int process = rendezvous_.placement().process;
  const SteadyTime::time_point begin = SteadyTime::now();
  std::string mine;
  for (const RankDescription& rank : ranks_)
    if (rank.process == process) mine += (read_ ? to_line(read_(rank.bus_id)) : std::string()) + "\n";
  mine = format("%.9f\n", Seconds(SteadyTime::now() - begin).count()) + mine;

  std::vector<GpuSnapshot> all(ranks_.size());
  reading_seconds_ = 0;
  const std::vector<std::string> parts = rendezvous_.all_gather(mine);
  for (std::size_t p = 0; p < parts.size(); ++p) {
    std::istringstream lines(parts[p]);
    std::string line;
    std::getline(lines, line);
    reading_seconds_ = std::max(reading_seconds_, std::strtod(line.c_str(), nullptr));
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      if (ranks_[r].process == static_cast<int>(p) && std::getline(lines, line)) all[r] = from_line(line);
  }
  measured_seconds_ = 0;
  cases_ = 0;
  return all;
}

void ContextReader::begin() {
  if (silent_) return;
  if (cases_ > 0) {
    foreign_traffic_ = true;
    return;
  }
  last_ = read_all();
  const std::string nothing = to_line({});
  silent_ = std::all_of(last_.begin(), last_.end(), [&](const auto& s) { return to_line(s) == nothing; });
}

std::optional<CaseContext> ContextReader::after(const Plan& plan, const std::vector<const CaseResult*>& results) {
  if (silent_ || last_.empty()) return std::nullopt;
  cases_ += static_cast<int>(results.size());
  for (const CaseResult* result : results) measured_seconds_ += seconds_of(plan, *result);
  if (!every_case_ && measured_seconds_ < shortest_gap * reading_seconds_) return std::nullopt;
  CaseContext context{.cases = cases_, .reading_us = 0, .ranks = {}, .warnings = {}};
  std::vector<GpuSnapshot> now = read_all();
  context.reading_us = reading_seconds_ * 1e6;
  for (std::size_t r = 0; r < ranks_.size(); ++r)
    context.ranks.push_back(
        {.rank = ranks_[r].rank, .own_processes = own_processes_[r], .before = last_[r], .after = now[r]});
  if (foreign_traffic_)
    for (GpuReading& reading : context.ranks) forget_traffic(reading.before);
  foreign_traffic_ = false;
  last_ = std::move(now);
  context.warnings = warnings_of(context.ranks);
  return context;
}

}  // namespace busbw

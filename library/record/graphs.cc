// The calls of graphs and of what was made of them, by the handles of the program.
#include "library/record/graphs.h"

#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>

#include "library/record/recording.h"

namespace busbw::record {

namespace {

struct Graphs {
  std::shared_mutex guard;
  std::unordered_map<const void*, std::vector<Captured>> graphs;
  std::unordered_map<const void*, std::vector<Captured>> executables;
};

Graphs& all() {
  // Never destroyed: programs launch graphs while they exit.
  static auto* graphs = new Graphs;
  return *graphs;
}

void append(std::vector<Captured>& to, const std::vector<Captured>& calls) {
  for (const Captured& call : calls) {
    if (to.size() >= most_of_a_graph) return;
    to.push_back(call);
  }
}

// Tickets of the launch that this thread is in, kept so that a launch takes no memory of its own.
std::vector<Ticket>& tickets() {
  static thread_local std::vector<Ticket> of_this_thread;
  return of_this_thread;
}

}  // namespace

void captured(void* graph, const Captured& call) {
  const std::unique_lock lock(all().guard);
  append(all().graphs[graph], {call});
}

void graph_was_cloned(const void* clone, const void* from) {
  const std::unique_lock lock(all().guard);
  const auto found = all().graphs.find(from);
  if (found == all().graphs.end()) {
    all().graphs.erase(clone);
  } else {
    const std::vector<Captured> calls = found->second;
    all().graphs[clone] = calls;
  }
}

void graph_took_graph(const void* graph, const void* child) {
  const std::unique_lock lock(all().guard);
  const auto found = all().graphs.find(child);
  if (found == all().graphs.end()) return;
  const std::vector<Captured> calls = found->second;
  append(all().graphs[graph], calls);
}

void graph_took_executable(const void* graph, const void* executable) {
  const std::unique_lock lock(all().guard);
  const auto found = all().executables.find(executable);
  if (found != all().executables.end()) append(all().graphs[graph], found->second);
}

void graph_ended(const void* graph) {
  const std::unique_lock lock(all().guard);
  all().graphs.erase(graph);
}

void executable_is(const void* executable, const void* graph) {
  const std::unique_lock lock(all().guard);
  const auto found = all().graphs.find(graph);
  if (found == all().graphs.end() || found->second.empty()) {
    all().executables.erase(executable);
    return;
  }
  std::vector<Captured> calls = found->second;
  for (Captured& call : calls) {
    call.given.flags &= std::uint8_t(~flag_captured);
    call.given.launched = true;
  }
  all().executables[executable] = std::move(calls);
}

void executable_ended(const void* executable) {
  const std::unique_lock lock(all().guard);
  all().executables.erase(executable);
}

Launch::Launch(const void* executable, const void* stream) {
  const std::shared_lock lock(all().guard);
  const auto found = all().executables.find(executable);
  if (found == all().executables.end()) return;
  const std::vector<Captured>& calls = found->second;
  // A child of a fork does not write into its parent's file.
  if (calls.front().rank->recording != recording()) return;
  recording_ = recording();
  recording_->header().launches.fetch_add(1, std::memory_order_relaxed);
  const std::uint64_t now = Recording::now_ns();
  std::vector<Ticket>& begun = tickets();
  begun.clear();
  for (const Captured& call : calls) {
    Given given = call.given;
    given.stream = stream;
    begun.push_back(recording_->begin(call.rank->row, given, now));
  }
  mark(calls, stream);
}

void Launch::mark(const std::vector<Captured>& calls, const void* stream) {
  const std::vector<Ticket>& begun = tickets();
  const Rank* rank = nullptr;
  std::uint64_t first = 0, last = 0;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (!is_collective(calls[i].given.kind) || (rank && rank != calls[i].rank)) continue;
    rank = calls[i].rank;
    if (!first) first = begun[i].sequence;
    last = begun[i].sequence;
  }
  const std::uint64_t now = begun.front().begun_ns;
  if (rank && rank->marks && rank->marks->is_due(now, now, 0)) mark_ = rank->marks->begin(stream, first, last, now);
}

void Launch::end(bool failed) {
  if (!recording_) return;
  const std::uint64_t now = Recording::now_ns();
  mark_.end(!failed);
  for (const Ticket& ticket : tickets()) recording_->end(ticket, failed ? ncclUnhandledCudaError : 0, true, now);
}

}  // namespace busbw::record

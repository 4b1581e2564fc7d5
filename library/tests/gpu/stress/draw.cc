// Drawing without the standard library's distributions, whose results differ between implementations.
#include "library/tests/gpu/stress/draw.h"

#include <algorithm>
#include <cmath>

namespace busbw::stress {
namespace {

// splitmix64: one addition and a bijective mix per number.
std::uint64_t mixed(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

std::size_t shift_of(std::uint32_t layout, int rank, int side) {
  const std::uint64_t key = (std::uint64_t{layout} << 16) + static_cast<std::uint64_t>(rank * 2 + side);
  return mixed(key) % (most_shift + 1);
}

}  // namespace

Shifts shifts(const Drawn& call, int rank) {
  switch (call.layout & 3U) {
    case 0:
      return {};
    case 1:  // the same everywhere: wide accesses fit all buffers or none
      return {shift_of(call.layout, 0, 0), shift_of(call.layout, 0, 0)};
    case 2:  // send and receive buffers do not agree
      return {shift_of(call.layout, 0, 0), shift_of(call.layout, 0, 1)};
    default:  // neither do the ranks, who must yet take the same path
      return {shift_of(call.layout, rank, 0), shift_of(call.layout, rank, 1)};
  }
}

Drawer::Drawer(Limits limits, std::uint64_t seed)
    : limits_(std::move(limits)), state_(mixed(seed + 1)), kept_(static_cast<std::size_t>(limits_.graphs)) {
  for (const Kind& kind : limits_.kinds) weights_ += kind.weight;
}

std::uint64_t Drawer::bits() { return mixed(state_ += 0x9e3779b97f4a7c15U); }

std::uint64_t Drawer::below(std::uint64_t limit) { return bits() % limit; }

Manner Drawer::draw_manner() {
  const std::uint64_t dice = below(100);
  if (dice < 50) return Manner::eager;
  if (dice < 65 || limits_.graphs == 0) return Manner::grouped;
  return dice < 75 ? Manner::captured : Manner::replayed;
}

std::size_t Drawer::draw_count(const Kind& kind, DataType type, int ranks) {
  const auto parts = static_cast<std::size_t>(kind.part_per_rank ? ranks : 1);
  const std::size_t most = std::max<std::size_t>(1, limits_.largest / element_size(type) / parts);
  const std::uint64_t shape = below(100);
  if (shape < 2) return 0;
  // Small messages take other paths than large ones: every power of two is as likely.
  const double exponent = std::log2(static_cast<double>(most)) * static_cast<double>(below(1U << 20)) / (1U << 20);
  std::size_t count = static_cast<std::size_t>(std::exp2(exponent));
  if (shape < 30) count = std::size_t{1} << static_cast<int>(exponent);
  if (shape >= 20 && shape < 30) count += shape % 2 == 0 ? 1 : std::size_t(-1);  // beside the edge of every chunk
  return std::min(count, most);
}

Drawn Drawer::draw_call() {
  Drawn call;
  call.number = number_++;
  auto dice = static_cast<int>(below(static_cast<std::uint64_t>(weights_)));
  while (dice >= limits_.kinds[static_cast<std::size_t>(call.kind)].weight)
    dice -= limits_.kinds[static_cast<std::size_t>(call.kind++)].weight;
  const Kind& kind = limits_.kinds[static_cast<std::size_t>(call.kind)];
  call.communicator = static_cast<int>(below(limits_.communicators.size()));
  const int ranks = limits_.communicators[static_cast<std::size_t>(call.communicator)];
  call.type = limits_.types[below(limits_.types.size())];
  // sum is what nearly everybody calls; the others share what is left.
  call.op = chance(50) ? limits_.ops.front() : limits_.ops[below(limits_.ops.size())];
  call.root = kind.rooted ? static_cast<int>(below(static_cast<std::uint64_t>(ranks))) : 0;
  call.count = draw_count(kind, call.type, ranks);
  call.in_place = kind.in_place && chance(40);
  call.seed = static_cast<std::uint32_t>(bits());
  call.layout = static_cast<std::uint32_t>(bits());
  return call;
}

// Two communicators must not have calls in flight at once unless something orders them: their kernels could each hold
// the multiprocessors that the other waits for. So a batch has one stream for all of its communicators, or one
// communicator on several streams, which is for the library to put in order.
void Drawer::place(Batch& batch) {
  const bool wandering = (batch.manner == Manner::eager && chance(40)) || (limits_.restless && chance(60));
  const bool together = wandering && batch.manner != Manner::eager && batch.manner != Manner::grouped;
  const auto stream = [&] { return static_cast<int>(below(static_cast<std::uint64_t>(limits_.streams))); };
  const int common = stream();
  for (Drawn& call : batch.calls) {
    // A graph is captured on one stream.
    call.stream = wandering && !together ? stream() : common;
    if (!wandering || limits_.overlap) continue;
    const int ranks = limits_.communicators[static_cast<std::size_t>(batch.calls.front().communicator)];
    const Kind& kind = limits_.kinds[static_cast<std::size_t>(call.kind)];
    const int before = limits_.communicators[static_cast<std::size_t>(call.communicator)];
    call.communicator = batch.calls.front().communicator;
    call.root = std::min(call.root, ranks - 1);
    // Of more ranks than the call was drawn for, each gets a smaller part.
    if (kind.part_per_rank && ranks > before)
      call.count = call.count * static_cast<std::size_t>(before) / static_cast<std::size_t>(ranks);
  }
}

int only_communicator(const std::vector<Drawn>& calls) {
  for (const Drawn& call : calls)
    if (call.communicator != calls.front().communicator) return -1;
  return calls.empty() ? -1 : calls.front().communicator;
}

Batch Drawer::next() {
  if (!limits_.restless) return draw_batch();
  const Renewal renewal = draw_renewal();
  for (const int graph : renewal.graphs) kept_[static_cast<std::size_t>(graph)].clear();
  Batch batch = draw_batch();
  batch.renewal = renewal;
  disturb(batch);
  return batch;
}

Renewal Drawer::draw_renewal() {
  Renewal renewal;
  // Windows belong to their communicators.
  if (limits_.windows || !chance(3)) return renewal;
  renewal.communicator = static_cast<int>(below(limits_.communicators.size()));
  renewal.aborts = limits_.aborts && chance(30);
  renewal.splits = limits_.splits && renewal.communicator > 0 && chance(50);
  for (std::size_t g = 0; g < kept_.size(); ++g)
    for (const Drawn& call : kept_[g])
      if (call.communicator == renewal.communicator &&
          (renewal.graphs.empty() || renewal.graphs.back() != static_cast<int>(g)))
        renewal.graphs.push_back(static_cast<int>(g));
  return renewal;
}

Batch Drawer::replay(int graph) {
  Batch batch{.manner = Manner::replayed, .graph = graph, .replays = 1 + static_cast<int>(below(3))};
  for (Drawn& call : kept_[static_cast<std::size_t>(graph)]) {
    call.number = number_++;
    call.seed = static_cast<std::uint32_t>(bits());
  }
  batch.calls = kept_[static_cast<std::size_t>(graph)];
  return batch;
}

// All on one communicator, which orders what streams no longer do: its last call is done when all are.
void Drawer::disturb(Batch& batch) {
  const int communicator = only_communicator(batch.calls);
  if (communicator < 0) return;
  const auto launches_graphs = [&](int stream) {
    for (const std::vector<Drawn>& calls : kept_)
      if (!calls.empty() && calls.front().stream == stream) return true;
    return false;
  };
  if (batch.manner == Manner::eager)
    for (std::size_t i = 0; i + 1 < batch.calls.size(); ++i)
      batch.calls[i].stream_goes = chance(40) && !launches_graphs(batch.calls[i].stream);
  std::vector<int> others;
  for (std::size_t g = 0; g < kept_.size(); ++g)
    if (static_cast<int>(g) != batch.graph && only_communicator(kept_[g]) == communicator)
      others.push_back(static_cast<int>(g));
  if (others.empty() || chance(30)) return;
  batch.beside = std::make_shared<const Batch>(replay(others[below(others.size())]));
}

Batch Drawer::draw_batch() {
  Batch batch{.manner = draw_manner()};
  const bool graph = batch.manner == Manner::captured || batch.manner == Manner::replayed;
  if (graph) {
    batch.graph = static_cast<int>(below(static_cast<std::uint64_t>(limits_.graphs)));
    batch.replays = 1 + static_cast<int>(below(3));
  }
  std::vector<Drawn>* kept = graph ? &kept_[static_cast<std::size_t>(batch.graph)] : nullptr;
  if (batch.manner == Manner::replayed && !kept->empty()) {
    for (Drawn& call : *kept) {
      call.number = number_++;
      call.seed = static_cast<std::uint32_t>(bits());
    }
    batch.calls = *kept;
    return batch;
  }
  if (batch.manner == Manner::replayed) batch.manner = Manner::captured;
  const std::uint64_t calls = 1 + below(calls_per_batch);
  for (std::uint64_t i = 0; i < calls; ++i) batch.calls.push_back(draw_call());
  place(batch);
  if (kept != nullptr) *kept = batch.calls;
  return batch;
}

}  // namespace busbw::stress

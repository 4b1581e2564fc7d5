// The timed loop and everything around it.
#include "engine/measure/bench.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include "engine/measure/premul.h"
#include "engine/measure/statistics.h"

namespace busbw {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return Seconds(Clock::now() - start).count(); }

// nccl-tests fills timed buffers with this seed and counts checks from 1.
constexpr std::uint32_t timing_seed = 99;

// How far a batch of `calls` calls starts behind the one before it. In nccl-tests, which makes one batch of each size,
// the first of the places that it rotates through have just been touched by the batch of the size before, and a cache
// may still hold them; the others have not. A batch that came back to the same places would find all of them in the
// caches, and one that took new ones none.
std::size_t new_places(int calls, Bytes previous, Bytes bytes) {
  if (previous.count >= bytes.count) return static_cast<std::size_t>(calls);
  const double known = static_cast<double>(previous.count) / static_cast<double>(bytes.count);
  return static_cast<std::size_t>(std::max(1.0, std::round(calls * (1 - known))));
}

// The segments' parts within `count` elements from `first` on, as offsets from there.
std::vector<Segment> segments_within(std::span<const Segment> segments, std::size_t first, std::size_t count) {
  std::vector<Segment> parts;
  for (Segment part : segments) {
    const std::size_t begin = std::max(part.offset, first);
    const std::size_t end = std::min(part.offset + part.count, first + count);
    if (begin >= end) continue;
    part.source_offset += begin - part.offset;
    part.offset = begin - first;
    part.count = end - begin;
    parts.push_back(part);
  }
  return parts;
}

}  // namespace

void Bench::select(DataType type, RedOp op, int root) {
  type_ = type;
  op_ = op;
  root_ = root;
}

Pattern Bench::pattern(const Rank& rank, std::uint32_t seed) const {
  const PatternKind kind = p_.collective.reduces() ? pattern_kind(op_) : PatternKind::copy;
  return {.type = type_, .kind = kind, .ranks = rank.seat.ranks, .seed = seed};
}

void Bench::set_up(Bytes bytes, bool in_place) {
  const std::size_t width = element_size(type_);
  const std::size_t misalignment = p_.plan.unaligned_elements * width;
  lanes_.clear();
  for (Rank* rank : p_.ranks) {
    Lane lane{.rank = rank, .geometry = p_.collective.geometry(bytes, type_, rank->seat)};
    char* const recv_base = rank->recv.get() + misalignment;
    lane.send = in_place ? recv_base + lane.geometry.in_place_send * width : rank->send.get() + misalignment;
    lane.recv = in_place ? recv_base + lane.geometry.in_place_recv * width : recv_base;
    lanes_.push_back(lane);
  }
  // Offsets change from call to call so that caches do not flatter small sizes.
  span_bytes_ = lanes_.front().geometry.span_elements * width;
  places_ = span_bytes_ > 0 ? std::max<std::size_t>(1, p_.buffer_bytes.count / span_bytes_) : 1;
  if (span_bytes_ > p_.buffer_bytes.count)
    throw Error(ExitCode::bad_arguments, format("a rank needs buffers of %zu bytes but -e allows %zu; raise -e",
                                                span_bytes_, p_.buffer_bytes.count));
}

Case Bench::describe(Bytes bytes, bool in_place) const {
  const Geometry geometry = p_.collective.geometry(bytes, type_, p_.ranks.front()->seat);
  Case c;
  c.type = type_;
  c.op = op_;
  c.has_op = p_.collective.reduces();
  c.op_column = p_.collective.op_column(op_);
  c.root = p_.collective.rooted() ? root_ : -1;
  c.requested = bytes;
  c.bytes = {geometry.span_elements * element_size(type_)};
  c.count = geometry.count;
  c.in_place = in_place;
  return c;
}

void Bench::fill(std::uint32_t seed, bool in_place) {
  for (const Lane& lane : lanes_) {
    Rank& rank = *lane.rank;
    rank.device->use();
    const Geometry& g = lane.geometry;
    const std::size_t width = element_size(type_);
    char* const recv_base = lane.recv - (in_place ? g.in_place_recv * width : 0);
    rank.device->clear(recv_base, span_bytes_, *rank.stream);
    const Pattern p = pattern(rank, seed);
    const std::vector<Segment> inputs = p_.collective.inputs(g, rank.seat, root_);
    rank.device->fill(lane.send, p, inputs, *rank.stream);
  }
  complete("filling buffers");
}

ncclRedOp_t Bench::make_mulsum(const Rank& rank) {
  std::uint64_t scalar = premul_scalar_bits(type_, rank.seat.rank);
  ncclRedOp_t op = ncclSum;
  p_.library.check(p_.library.nccl().red_op_create_pre_mul_sum(&op, &scalar, static_cast<ncclDataType_t>(type_),
                                                               ncclScalarHostImmediate, rank.comm),
                   "ncclRedOpCreatePreMulSum", rank.comm);
  return op;
}

void Bench::start_lane(const Lane& lane, std::size_t shift, int step) {
  Rank& rank = *lane.rank;
  const NcclFunctions& nccl = p_.library.nccl();
  const bool mulsum = op_ == RedOp::mulsum && p_.collective.reduces();
  const ncclRedOp_t op = mulsum ? make_mulsum(rank) : static_cast<ncclRedOp_t>(op_);
  const ncclResult_t result = p_.collective.enqueue({.nccl = nccl,
                                                     .copy = rank.copy,
                                                     .send = lane.send + shift,
                                                     .recv = lane.recv + shift,
                                                     .geometry = lane.geometry,
                                                     .type = type_,
                                                     .op = op,
                                                     .root = root_,
                                                     .seat = rank.seat,
                                                     .comm = rank.comm,
                                                     .stream = rank.stream->handle(),
                                                     .step = step});
  if (mulsum) nccl.red_op_destroy(op, rank.comm);
  if (result != ncclSuccess) {
    // A peer's failure explains more than the library's error that follows from it.
    p_.team.check();
    p_.library.check(result, format("%s on rank %d", p_.collective.program().c_str(), rank.world_rank).c_str(),
                     rank.comm);
  }
}

void Bench::start(int iteration) {
  const std::size_t shift = span_bytes_ * ((first_place_ + static_cast<std::size_t>(iteration)) % places_);
  const int steps = p_.collective.steps(lanes_.front().rank->seat.ranks);
  for (int step = 0; step < steps; ++step) {
    std::optional<Group> group;
    if (lanes_.size() > 1) group.emplace(p_.library);
    for (const Lane& lane : lanes_) start_lane(lane, shift, step);
    if (group) group->end();
  }
  // A stream that is being captured cannot be waited for.
  if (capturing_) return;
  switch (p_.plan.blocking) {
    case Blocking::none:
    case Blocking::outer:
      return;
    case Blocking::wait_and_barrier:
      complete(nullptr);
      return p_.team.line_up(p_.thread);
    case Blocking::wait:
      return complete(nullptr);
  }
}

void Bench::complete(const char* what) {
  for (const Lane& lane : lanes_) {
    if (lane.rank->stream->finished()) continue;
    const Watchdog::Wait wait(p_.watchdog, p_.thread, what);
    while (!lane.rank->stream->finished()) {
      p_.team.check();
      if (const auto get_error = p_.library.nccl().comm_get_async_error; get_error != nullptr) {
        ncclResult_t error = ncclSuccess;
        p_.library.check(get_error(lane.rank->comm, &error), "ncclCommGetAsyncError", lane.rank->comm);
        p_.library.check(error, "an operation in flight", lane.rank->comm);
      }
      sched_yield();
    }
  }
}

void Bench::warm_up(const std::vector<Bytes>& sizes) {
  // While one still reads its GPU after the last case, no other starts.
  p_.team.barrier();
  for (const Bytes bytes : sizes) warm_up_size(bytes);
  p_.team.barrier();
}

void Bench::warm_up_size(Bytes bytes) {
  set_up(bytes, false);
  p_.watchdog.describe(p_.thread,
                       format("rank %d, warm-up of %zu bytes", lanes_.front().rank->world_rank, bytes.count));
  const Watchdog::Wait wait(p_.watchdog, p_.thread, "the warm-up");
  // Under --precision a first batch that was slow moves no median, so that long calls are warmed up once.
  constexpr std::size_t long_call = std::size_t{16} << 20;
  const bool once = p_.plan.precision && bytes.count >= long_call;
  const int iterations = once ? std::min(1, p_.plan.warmup_iterations) : p_.plan.warmup_iterations;
  for (int i = 0; i < iterations; ++i) start(i);
  complete("the warm-up");
}

void Bench::iterate(int iterations, std::vector<std::unique_ptr<Events>>& events, double& outer_seconds) {
  const bool outer = p_.plan.blocking == Blocking::outer;
  // Steps that depend on each other lose their order inside a group.
  const bool groupable = p_.collective.steps(lanes_.front().rank->seat.ranks) == 1;
  const auto record = [&](int index) {
    for (auto& e : events) e->record(static_cast<std::size_t>(index));
  };
  for (int i = 0; i < iterations; ++i) {
    // Read whether needed or not, as nccl-tests does: it takes as long as a hundredth of a short call's launch.
    const Clock::time_point begin = Clock::now();
    std::optional<Group> group;
    if (p_.plan.aggregated > 1 && groupable) group.emplace(p_.library);
    record(outer ? 2 * i : i);
    for (int a = 0; a < p_.plan.aggregated; ++a) start(i * p_.plan.aggregated + a);
    if (group) group->end();
    if (!outer) continue;
    complete(nullptr);
    record(2 * i + 1);
    outer_seconds += seconds_since(begin);
    p_.team.line_up(p_.thread);
  }
  if (!outer) record(iterations);
}

std::vector<double> Bench::iteration_times(std::vector<std::unique_ptr<Events>>& events, int iterations) {
  const bool pairs = p_.plan.blocking == Blocking::outer;
  std::vector<double> times(static_cast<std::size_t>(iterations), 0.0);
  for (auto& e : events)
    for (std::size_t i = 0; i < times.size(); ++i) {
      const Seconds elapsed = pairs ? e->between(2 * i, 2 * i + 1) : e->between(i, i + 1);
      times[i] = std::max(times[i], microseconds(elapsed) / p_.plan.aggregated);
    }
  return times;
}

Bench::Batch Bench::run_batch(int iterations) {
  std::vector<std::unique_ptr<Events>> events;
  const auto event_count =
      static_cast<std::size_t>(p_.plan.blocking == Blocking::outer ? 2 * iterations : iterations + 1);
  for (const Lane& lane : lanes_)
    if (p_.plan.per_iteration) events.push_back(lane.rank->stream->make_events(event_count));
  const double calls = static_cast<double>(iterations) * p_.plan.aggregated;
  const bool outer = p_.plan.blocking == Blocking::outer;
  Batch batch;
  double outer_seconds = 0;
  const Watchdog::Wait wait(p_.watchdog, p_.thread, "the timed iterations");
  p_.team.line_up(p_.thread);
  const Clock::time_point begin = Clock::now();
  iterate(iterations, events, outer_seconds);
  batch.launch = (outer ? outer_seconds : seconds_since(begin)) / calls;
  complete("the timed iterations");
  batch.elapsed = (outer ? outer_seconds : seconds_since(begin)) / calls;
  if (p_.plan.per_iteration) batch.iterations = iteration_times(events, iterations);
  return batch;
}

std::vector<std::unique_ptr<Graph>> Bench::capture(int iterations, int aggregated) {
  for (const Lane& lane : lanes_) {
    lane.rank->device->use();
    lane.rank->stream->begin_capture();
  }
  const bool groupable = p_.collective.steps(lanes_.front().rank->seat.ranks) == 1;
  capturing_ = true;
  for (int i = 0; i < iterations; ++i) {
    std::optional<Group> group;
    if (aggregated > 1 && groupable) group.emplace(p_.library);
    for (int a = 0; a < aggregated; ++a) start(i * aggregated + a);
    if (group) group->end();
  }
  capturing_ = false;
  std::vector<std::unique_ptr<Graph>> graphs;
  for (const Lane& lane : lanes_) {
    lane.rank->device->use();
    graphs.push_back(lane.rank->stream->end_capture());
  }
  for (const auto& graph : graphs) graph->instantiate();
  return graphs;
}

Bench::Batch Bench::run_graph_batch(std::vector<std::unique_ptr<Graph>>& graphs, int iterations, int launches) {
  const double calls = static_cast<double>(iterations) * p_.plan.aggregated;
  Batch batch;
  const Watchdog::Wait wait(p_.watchdog, p_.thread, "the graph launches");
  p_.team.line_up(p_.thread);
  const Clock::time_point begin = Clock::now();
  for (int l = 0; l < launches; ++l)
    for (auto& graph : graphs) graph->launch();
  batch.launch = seconds_since(begin) / calls;
  complete("the graph launches");
  batch.elapsed = seconds_since(begin) / calls / launches;
  return batch;
}

double Bench::add_batch(CaseResult& result, const Batch& batch) {
  const std::vector<double> by_thread = p_.team.all_gather(p_.thread, batch.elapsed);
  result.batches_us.resize(by_thread.size());
  for (std::size_t t = 0; t < by_thread.size(); ++t) result.batches_us[t].push_back(by_thread[t] * 1e6);
  return combine(by_thread, p_.plan.average);
}

double Bench::estimate_call() {
  // One hiccup must not cut the batches of a short call; a long call is not worth a second one.
  constexpr double long_call = 1e-3;
  const double first = time_call();
  return first < long_call ? std::min(first, time_call()) : first;
}

double Bench::time_call() {
  p_.team.line_up(p_.thread);
  const Clock::time_point begin = Clock::now();
  start(0);
  complete("the first operation");
  return combine(p_.team.all_gather(p_.thread, seconds_since(begin) / std::max(1, p_.plan.aggregated)), Average::mean);
}

double Bench::sample_once(Sampling& sampling, const BatchShape& shape, Bytes bytes, int number) {
  set_up(bytes, sampling.in_place);
  first_place_ = static_cast<std::size_t>(number) * sampling.places_between;
  // As in nccl-tests, whose threads come to the barrier from the end of an operation. A long call is not worth it.
  if (shape.iterations >= p_.plan.iterations && sampling.graphs.empty()) {
    start(0);
    complete("the first operation");
  }
  const Batch batch = sampling.graphs.empty() ? run_batch(shape.iterations)
                                              : run_graph_batch(sampling.graphs, shape.iterations, shape.launches);
  first_place_ = 0;
  if (number == 0) sampling.result.cpu_time_us = batch.launch * 1e6;
  const double seconds_per_call = add_batch(sampling.result, batch);
  sampling.combined.add(seconds_per_call);
  return seconds_per_call * shape.iterations * shape.launches * p_.plan.aggregated;
}

bool Bench::is_time_up(double seconds_here) {
  // Clocks differ between ranks: the slowest decides for all.
  const std::vector<double> spent = p_.team.all_gather(p_.thread, seconds_here);
  return *std::max_element(spent.begin(), spent.end()) > p_.plan.max_seconds;
}

void Bench::sample_until_precise(Sampling& out_of_place, Sampling& in_place, const BatchShape& shape, Bytes bytes) {
  constexpr double level = 0.95;
  constexpr int most_batches = 100'000;
  const int fewest = fewest_samples(level);
  const Clock::time_point begin = Clock::now();
  // Asking all ranks for the time takes as long as a short batch. What the batches took is known to all alike.
  const double between_looks = std::min(0.02, p_.plan.max_seconds / 10);
  // Sizes that were rounded down to nothing. Making such a figure precise took as long as many rows together.
  const bool moves_nothing = lanes_.front().geometry.span_elements == 0;
  double unseen = 0;
  bool done = false;
  for (int b = 0; b < most_batches && !done; ++b) {
    for (Sampling* sampling : {&out_of_place, &in_place}) unseen += sample_once(*sampling, shape, bytes, b);
    if (b + 1 < fewest) continue;
    done = true;
    for (Sampling* sampling : {&out_of_place, &in_place}) {
      Interval interval = sampling->combined.median_interval(level);
      interval.reached = interval.high - interval.low <= *p_.plan.precision * interval.median;
      sampling->result.interval = interval;
      done = done && interval.reached;
    }
    done = done || moves_nothing;
    if (done || unseen < between_looks) continue;
    unseen = 0;
    done = is_time_up(seconds_since(begin));
  }
  for (Sampling* sampling : {&out_of_place, &in_place}) {
    Interval& interval = *sampling->result.interval;
    sampling->result.time_us = interval.median * 1e6;
    interval.median *= 1e6;
    interval.low *= 1e6;
    interval.high *= 1e6;
  }
}

void Bench::gather_iterations(CaseResult& result, const Batch& batch) {
  const auto threads = static_cast<std::size_t>(p_.team.threads());
  const auto processes = static_cast<std::size_t>(p_.team.all_threads()) / threads;
  std::vector<std::vector<double>> by_process(processes, std::vector<double>(batch.iterations.size(), 0.0));
  std::vector<double> maximum(batch.iterations.size(), 0.0);
  for (std::size_t i = 0; i < batch.iterations.size(); ++i) {
    const std::vector<double> all = p_.team.all_gather(p_.thread, batch.iterations[i]);
    for (std::size_t t = 0; t < all.size(); ++t) {
      double& slot = by_process[t / threads][i];
      slot = std::max(slot, all[t]);
      maximum[i] = std::max(maximum[i], all[t]);
    }
  }
  result.per_iteration = summarize_iterations(maximum, p_.plan.per_iteration_skip);
  if (processes > 1) result.per_iteration->per_process_maximum = std::move(by_process);
}

void Bench::sample(CaseResult& result) {
  std::vector<std::unique_ptr<Graph>> graphs;
  if (p_.plan.graph_launches > 0) graphs = capture(p_.plan.iterations, p_.plan.aggregated);
  result.iterations = p_.plan.iterations;
  const Batch batch = graphs.empty() ? run_batch(p_.plan.iterations)
                                     : run_graph_batch(graphs, p_.plan.iterations, p_.plan.graph_launches);
  result.time_us = add_batch(result, batch) * 1e6;
  result.cpu_time_us = batch.launch * 1e6;
  if (p_.plan.per_iteration) gather_iterations(result, batch);
}

std::uint64_t Bench::count_wrong(const Lane& lane, bool in_place) {
  Rank& rank = *lane.rank;
  rank.device->use();
  const Geometry& g = lane.geometry;
  const Pattern p = pattern(rank, check_seed_);
  const std::size_t width = element_size(type_);
  const std::size_t piece = rank.device->check_piece().count / width;
  const std::vector<Segment> expected = p_.collective.expected(g, rank.seat, root_, in_place);
  std::uint64_t wrong = 0;
  for (std::size_t first = 0; first < g.recv_elements; first += piece) {
    const std::size_t count = std::min(piece, g.recv_elements - first);
    const std::vector<Segment> parts = segments_within(expected, first, count);
    std::size_t covered = 0;
    for (const Segment& part : parts) covered += part.count;
    // What nobody writes was cleared before the operation.
    if (covered < count) rank.device->clear(rank.expected.get(), count * width, *rank.stream);
    rank.device->fill(rank.expected.get(), p, parts, *rank.stream);
    wrong += rank.device->count_wrong(lane.recv + first * width, rank.expected.get(), count, p, *rank.stream);
  }
  return wrong;
}

std::uint64_t Bench::count_wrong_of_all(bool in_place) {
  double mine = 0;
  for (const Lane& lane : lanes_) mine += static_cast<double>(count_wrong(lane, in_place));
  std::uint64_t wrong = 0;
  for (const double each : p_.team.all_gather(p_.thread, mine)) wrong += static_cast<std::uint64_t>(each);
  return wrong;
}

void Bench::verify(CaseResult& result, bool in_place, int checks_done) {
  if (p_.plan.checks == 0 || (in_place && !p_.collective.checked_in_place())) return;
  std::uint64_t wrong = result.wrong.value_or(0);
  for (int check = checks_done; check < p_.plan.checks && wrong == 0; ++check) {
    fill(++check_seed_, in_place);
    const Watchdog::Wait wait(p_.watchdog, p_.thread, "the checked operation");
    p_.team.barrier();
    if (p_.plan.graph_launches > 0) {
      const std::vector<std::unique_ptr<Graph>> graphs = capture(1, 1);
      for (const auto& graph : graphs) graph->launch();
      complete("the checked operation");
    } else {
      start(0);
      complete("the checked operation");
    }
    wrong = count_wrong_of_all(in_place);
  }
  result.wrong = wrong;
}

void Bench::describe_to_watchdog(const Case& the_case) {
  p_.watchdog.describe(p_.thread, format("rank %d, %s %s of %zu bytes %s", lanes_.front().rank->world_rank,
                                         std::string(p_.collective.name()).c_str(), std::string(name(type_)).c_str(),
                                         the_case.bytes.count, the_case.in_place ? "in place" : "out of place"));
}

void Bench::finish(CaseResult& result) {
  const Geometry& g = lanes_.front().geometry;
  const double bytes = g.algorithm_elements * static_cast<double>(element_size(type_));
  result.algbw = gigabytes_per_second(bytes, Seconds(result.time_us * 1e-6));
  result.busbw = result.algbw * p_.collective.bus_factor(lanes_.front().rank->seat.ranks);
  const RedOp op = p_.collective.reduces() ? op_ : RedOp::sum;
  const Lane& lane = lanes_.front();
  result.algorithm =
      p_.library.explain({p_.collective.name(), lane.send, lane.recv, g.count, type_, op}, lane.rank->comm);
}

CaseResult Bench::measure(const Case& the_case) {
  set_up(the_case.requested, the_case.in_place);
  describe_to_watchdog(the_case);
  CaseResult result;
  p_.team.barrier();
  // Without checks nccl-tests times whatever the buffers hold; so does this. As there, nobody waits for the others'
  // filling: the first operation does.
  if (p_.plan.checks > 0) fill(timing_seed, the_case.in_place);
  start(0);
  complete("the first operation");
  sample(result);
  finish(result);
  p_.team.barrier();
  verify(result, the_case.in_place, 0);
  return result;
}

Bench::Row Bench::measure_row_precisely(const Case& out_of_place, Bytes previous) {
  const Bytes bytes = out_of_place.requested;
  Sampling samplings[] = {{.in_place = false}, {.in_place = true}};
  set_up(bytes, false);
  describe_to_watchdog(out_of_place);
  // The call that tells how long one takes is checked as well: a call of 4 GiB, and filling its buffers, are worth
  // saving.
  const bool checked = p_.plan.checks > 0 && p_.plan.graph_launches == 0;
  if (p_.plan.checks > 0) fill(checked ? ++check_seed_ : timing_seed, false);
  const BatchShape shape = batch_shape(p_.plan, estimate_call());
  if (checked) samplings[0].result.wrong = count_wrong_of_all(false);
  for (Sampling& sampling : samplings) {
    sampling.result.iterations = shape.iterations;
    sampling.places_between = new_places(shape.iterations * p_.plan.aggregated, previous, bytes);
    set_up(bytes, sampling.in_place);
    if (p_.plan.graph_launches > 0) sampling.graphs = capture(shape.iterations, p_.plan.aggregated);
  }
  sample_until_precise(samplings[0], samplings[1], shape, bytes);
  for (Sampling& sampling : samplings) {
    set_up(bytes, sampling.in_place);
    finish(sampling.result);
    p_.team.barrier();
    verify(sampling.result, sampling.in_place, checked && !sampling.in_place ? 1 : 0);
  }
  return {std::move(samplings[0].result), std::move(samplings[1].result)};
}

}  // namespace busbw

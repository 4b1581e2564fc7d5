// The order of things in a case; what is timed stands in batch.cc.
#include "engine/measure/bench.h"

#include <algorithm>

#include "engine/measure/nccl_tests_way.h"
#include "engine/measure/verify.h"

namespace busbw {
namespace {

// nccl-tests fills timed buffers with this seed and counts checks from 1.
constexpr std::uint32_t timing_seed = 99;

}  // namespace

Bench::Bench(Parts parts)
    : p_(std::move(parts)), lanes_(p_), barrier_(p_.team, p_.thread), timing_{clock_,  barrier_,     lanes_,
                                                                              p_.plan, &p_.watchdog, p_.thread} {}

Case Bench::describe(Bytes bytes, bool in_place) const {
  const Geometry geometry = lanes_.geometry(bytes);
  const Selection& chosen = lanes_.selection();
  Case c;
  c.type = chosen.type;
  c.op = chosen.op;
  c.has_op = p_.collective.reduces();
  c.op_column = p_.collective.op_column(chosen.op);
  c.root = p_.collective.rooted() ? chosen.root : -1;
  c.requested = bytes;
  c.bytes = {geometry.span_elements * element_size(chosen.type)};
  c.count = geometry.count;
  c.in_place = in_place;
  return c;
}

void Bench::fill_inputs(std::uint32_t seed, bool in_place) {
  fill(lanes_, p_.collective, seed, in_place);
  lanes_.complete("filling buffers");
}

void Bench::warm_up(const std::vector<Bytes>& sizes) {
  // While one still reads its GPU after the last case, no other starts.
  barrier_.wait();
  for (const Bytes bytes : sizes) warm_up_size(bytes);
  barrier_.wait();
}

void Bench::warm_up_size(Bytes bytes) {
  lanes_.set_up(bytes, false);
  p_.watchdog.describe(p_.thread, format("rank %d, warm-up of %zu bytes", p_.ranks.front()->world_rank, bytes.count));
  const Watchdog::Wait wait(p_.watchdog, p_.thread, "the warm-up");
  // Under --precision a first batch that was slow moves no median, so that long calls are warmed up once.
  constexpr std::size_t long_call = std::size_t{16} << 20;
  const bool once = p_.plan.precision && bytes.count >= long_call;
  const int iterations = once ? std::min(1, p_.plan.warmup_iterations) : p_.plan.warmup_iterations;
  for (int i = 0; i < iterations; ++i) start_call(timing_, i);
  lanes_.complete("the warm-up");
}

std::uint64_t Bench::count_wrong_of_all(bool in_place) {
  const auto mine = static_cast<double>(count_wrong(lanes_, p_.collective, check_seed_, in_place));
  std::uint64_t wrong = 0;
  for (const double each : barrier_.all_gather(mine)) wrong += static_cast<std::uint64_t>(each);
  return wrong;
}

void Bench::run_checked_call() {
  const Watchdog::Wait wait(p_.watchdog, p_.thread, "the checked operation");
  barrier_.wait();
  if (p_.plan.graph_launches > 0) {
    const Graphs graphs = capture(timing_, 1, 1);
    for (const auto& graph : graphs) graph->launch();
    return lanes_.complete("the checked operation");
  }
  start_call(timing_, 0);
  lanes_.complete("the checked operation");
}

void Bench::verify(CaseResult& result, bool in_place, int checks_done) {
  if (p_.plan.checks == 0 || (in_place && !p_.collective.checked_in_place())) return;
  std::uint64_t wrong = result.wrong.value_or(0);
  for (int check = checks_done; check < p_.plan.checks && wrong == 0; ++check) {
    fill_inputs(++check_seed_, in_place);
    run_checked_call();
    wrong = count_wrong_of_all(in_place);
  }
  result.wrong = wrong;
}

void Bench::describe_to_watchdog(const Case& the_case) {
  p_.watchdog.describe(
      p_.thread, format("rank %d, %s %s of %zu bytes %s", p_.ranks.front()->world_rank,
                        std::string(p_.collective.name()).c_str(), std::string(name(lanes_.selection().type)).c_str(),
                        the_case.bytes.count, the_case.in_place ? "in place" : "out of place"));
}

void Bench::finish(CaseResult& result) {
  const Lane& lane = lanes_.all().front();
  const Selection& chosen = lanes_.selection();
  set_bandwidths(result, lane.geometry.algorithm_elements * static_cast<double>(element_size(chosen.type)),
                 p_.collective.bus_factor(lane.rank->seat.ranks));
  const RedOp op = p_.collective.reduces() ? chosen.op : RedOp::sum;
  result.algorithm = p_.library.explain(
      {p_.collective.name(), lane.send, lane.recv, lane.geometry.count, chosen.type, op}, lane.rank->comm);
}

// The rank that came last waited for nobody, so its first call took about as long as a call takes.
double Bench::shortest_of_all(Seconds mine) {
  const std::vector<double> all = barrier_.all_gather(mine.count());
  return *std::min_element(all.begin(), all.end());
}

BesideResult Bench::measure_beside(const Case& the_case) {
  if (products_.empty())
    for (const Rank* rank : p_.ranks) products_.push_back(rank->device->make_product(p_.plan.beside->shape));
  return busbw::measure_beside(timing_, products_, the_case.bytes);
}

CaseResult Bench::measure(const Case& the_case, Bytes previous) {
  lanes_.set_up(the_case.requested, the_case.in_place);
  describe_to_watchdog(the_case);
  CaseResult result;
  barrier_.wait();
  // Without checks nccl-tests times whatever the buffers hold; so does this. As there, nobody waits for the others'
  // filling: the first operation does.
  if (p_.plan.checks > 0) fill_inputs(timing_seed, the_case.in_place);
  const Seconds begin = clock_.now();
  start_call(timing_, 0);
  lanes_.complete("the first operation");
  const Cut cut = cut_case(p_.plan, p_.plan.batches > 1 ? shortest_of_all(clock_.now() - begin) : 0);
  // Parts of one batch go on where the part before stopped, as its calls would have.
  const std::size_t places_between = new_places(p_.plan.iterations * p_.plan.aggregated, previous, the_case.requested);
  sample_as_nccl_tests(
      timing_, cut,
      [&](int number, int calls) {
        lanes_.begin_at(cut.shared ? static_cast<std::size_t>(calls)
                                   : static_cast<std::size_t>(number) * places_between);
      },
      result);
  lanes_.begin_at(0);
  finish(result);
  if (p_.plan.beside && !the_case.in_place) result.beside = measure_beside(the_case);
  barrier_.wait();
  verify(result, the_case.in_place, 0);
  return result;
}

Bench::Row Bench::measure_row_precisely(const Case& out_of_place, Bytes previous) {
  const Bytes bytes = out_of_place.requested;
  Sampling samplings[] = {{.in_place = false}, {.in_place = true}};
  lanes_.set_up(bytes, false);
  describe_to_watchdog(out_of_place);
  // The call that tells how long one takes is checked as well: a call of 4 GiB, and filling its buffers, are worth
  // saving.
  const bool checked = p_.plan.checks > 0 && p_.plan.graph_launches == 0;
  if (p_.plan.checks > 0) fill_inputs(checked ? ++check_seed_ : timing_seed, false);
  const BatchShape shape = batch_shape(p_.plan, estimate_call(timing_, bytes));
  if (checked) samplings[0].result.wrong = count_wrong_of_all(false);
  for (Sampling& sampling : samplings) {
    sampling.result.iterations = shape.iterations;
    sampling.places_between = new_places(shape.iterations * p_.plan.aggregated, previous, bytes);
    lanes_.set_up(bytes, sampling.in_place);
    if (p_.plan.graph_launches > 0) sampling.graphs = capture(timing_, shape.iterations, p_.plan.aggregated);
  }
  const bool moves_nothing = lanes_.span_bytes() == 0;
  sample_until_precise(timing_, shape, moves_nothing, samplings[0], samplings[1],
                       [&](const Sampling& sampling, int number) {
                         lanes_.set_up(bytes, sampling.in_place);
                         lanes_.begin_at(static_cast<std::size_t>(number) * sampling.places_between);
                       });
  for (Sampling& sampling : samplings) {
    lanes_.set_up(bytes, sampling.in_place);
    finish(sampling.result);
    barrier_.wait();
    verify(sampling.result, sampling.in_place, checked && !sampling.in_place ? 1 : 0);
  }
  return {std::move(samplings[0].result), std::move(samplings[1].result)};
}

}  // namespace busbw

// Expands the axes of a plan in nccl-tests' order: type, then operation, then root, each a warm-up and a sweep.
#include "engine/app/sweep.h"

#include <numeric>
#include <utility>

#include "engine/app/size.h"

namespace busbw {
namespace {

std::vector<int> roots_of(const Job& job) {
  if (!job.collective->rooted()) return {0};
  if (!job.plan.all_roots) return {job.plan.root};
  std::vector<int> roots(static_cast<std::size_t>(job.description.ranks_in_group));
  std::iota(roots.begin(), roots.end(), 0);
  return roots;
}

// Operations change nothing where none is applied, except that nccl-tests repeats sendrecv for each.
std::vector<RedOp> ops_of(const Job& job) {
  const bool named = job.collective->op_column(RedOp::max) == name(RedOp::max);
  return job.collective->reduces() || named ? job.plan.ops : std::vector<RedOp>{RedOp::sum};
}

std::string why_not(const Job& job, DataType type, RedOp op) {
  const Library& library = *job.backend.library;
  if (std::string reason = library.why_not(type); !reason.empty()) return reason;
  if (job.collective->reduces())
    if (std::string reason = library.why_not(op); !reason.empty()) return reason;
  const bool fp8 = type == DataType::f8e4m3 || type == DataType::f8e5m2;
  for (const auto& rank : job.ranks) {
    const DeviceInfo& device = rank->device->info();
    // NCCL compiles its fp8 reductions for sm_90 and newer only.
    if (fp8 && job.collective->reduces() && device.kind == DeviceInfo::Kind::gpu && device.capability < 90)
      return format("fp8 reductions need a GPU of sm_90 or newer; %s is sm_%d", device.name.c_str(), device.capability);
  }
  return "";
}

// What one thread sweeps with.
struct Sweeper {
  const Job& job;
  Bench& bench;
  Reporter& reporter;
  ContextReader* context;
  const std::function<bool(bool)>& before_row;

  void read_context(CaseResult& last, std::initializer_list<const CaseResult*> results) const {
    if (context != nullptr) last.context = context->after(job.plan, results);
  }

  void measure_placement(const Case& the_case, Bytes previous) const {
    reporter.progress(the_case);
    CaseResult result = bench.measure(the_case, previous);
    read_context(result, {&result});
    reporter.result(the_case, std::move(result));
  }

  // `previous` is the size of the row before; 0: none.
  void measure_row(Bytes bytes, Bytes previous, int cycle) const {
    Case out_of_place = bench.describe(bytes, false);
    Case in_place = bench.describe(bytes, true);
    out_of_place.cycle = in_place.cycle = cycle;
    if (!job.plan.precision) {
      measure_placement(out_of_place, previous);
      return measure_placement(in_place, previous);
    }
    reporter.progress(out_of_place);
    Bench::Row row = bench.measure_row_precisely(out_of_place, previous);
    // Their batches alternate: no reading lies between them.
    read_context(row.in_place, {&row.out_of_place, &row.in_place});
    reporter.result(out_of_place, std::move(row.out_of_place));
    reporter.result(in_place, std::move(row.in_place));
  }

  void warm_up() const {
    reporter.settle();
    bench.warm_up(warmup_sizes(job.plan.sizes));
    if (context != nullptr) context->begin();
    reporter.lap("warm-up");
  }

  // False where no turn is left. `first` says that a cycle over everything begins with the next row.
  bool sweep_sizes(int first_cycle, int cycles, bool& first) const {
    if (first_cycle == 0) {
      if (!before_row(std::exchange(first, false))) return false;
      warm_up();
    }
    const std::vector<Bytes> sizes = sizes_of(job.plan.sizes);
    Bytes previous;
    for (int cycle = first_cycle; cycles == 0 || cycle < first_cycle + cycles; ++cycle)
      for (const Bytes bytes : sizes) {
        if (!before_row(std::exchange(first, false))) return false;
        measure_row(bytes, std::exchange(previous, bytes), cycle);
      }
    reporter.lap("cases");
    return true;
  }
};

}  // namespace

void sweep(const Job& job, Bench& bench, Reporter& reporter, ContextReader* context,
           const std::function<bool(bool)>& before_row) {
  const Sweeper sweeper{job, bench, reporter, context, before_row};
  const std::string reason = job.collective->why_not(job.backend.library->nccl(), job.description.ranks_in_group);
  if (!reason.empty()) return reporter.skip(bench.describe(job.plan.sizes.first, false), reason);
  const bool in_turns = job.players > 1;
  const int outer = in_turns ? job.plan.cycles : 1;
  for (int cycle = 0; outer == 0 || cycle < outer; ++cycle) {
    bool first = true;
    for (const DataType type : job.plan.types)
      for (const RedOp op : ops_of(job))
        for (const int root : roots_of(job)) {
          bench.select(type, op, root);
          const std::string lack = why_not(job, type, op);
          if (!lack.empty() && cycle == 0) reporter.skip(bench.describe(job.plan.sizes.first, false), lack);
          if (!lack.empty()) continue;
          if (!sweeper.sweep_sizes(cycle, in_turns ? 1 : job.plan.cycles, first)) return;
        }
    if (first) return;  // nothing can be measured
  }
}

}  // namespace busbw

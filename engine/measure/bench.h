// Measures the cases of one thread's ranks: warm-up, timing, sampling until precise, verification.
//
// Every thread of every process runs the same sequence of calls; what one decides, all decide, from numbers that all
// have.
#pragma once

#include <optional>
#include <vector>

#include "engine/collectives/collective.h"
#include "engine/core/plan.h"
#include "engine/core/result.h"
#include "engine/library_api/library.h"
#include "engine/measure/batch_shape.h"
#include "engine/measure/rank.h"
#include "engine/measure/statistics.h"
#include "engine/measure/team.h"
#include "engine/measure/watchdog.h"

namespace busbw {

class Bench {
 public:
  struct Parts {
    const Plan& plan;
    const Collective& collective;
    const Library& library;
    Team& team;
    Watchdog& watchdog;
    int thread = 0;            // in this process
    std::vector<Rank*> ranks;  // of this thread
    Bytes buffer_bytes;        // of each buffer; rotation stays inside
  };
  explicit Bench(Parts parts) : p_(std::move(parts)) {}

  // Chooses type, operation and root for the calls that follow.
  void select(DataType type, RedOp op, int root);

  // -w iterations of each size, out of place. When it returns, they have completed on all ranks.
  void warm_up(const std::vector<Bytes>& sizes);

  // Size and count columns of a request on these ranks.
  Case describe(Bytes bytes, bool in_place) const;

  // One placement of one size. Collective over the team; throws on failure of any rank.
  CaseResult measure(const Case& the_case);

  // --precision: both placements of one size, batch by batch in turn until both are precise, or the time is up. In
  // turn, because caches hold for the calls in place what those out of place have just touched, as they do in
  // nccl-tests.
  struct Row {
    CaseResult out_of_place;
    CaseResult in_place;
  };
  // `previous` is the size that this sweep has measured before this one; 0: none.
  Row measure_row_precisely(const Case& out_of_place, Bytes previous);

 private:
  struct Batch {
    double elapsed = 0;              // seconds per call
    double launch = 0;               // seconds per call
    std::vector<double> iterations;  // microseconds, maximum over this thread's ranks; with -I
  };
  // One placement under --precision.
  struct Sampling {
    bool in_place = false;
    std::size_t places_between = 1;  // the first of a batch and that of the next
    CaseResult result{};
    GrowingSamples combined{};  // seconds per call, by batch
    std::vector<std::unique_ptr<Graph>> graphs{};
  };
  // Geometry, addresses and operation of one rank for the case in hand.
  struct Lane {
    Rank* rank = nullptr;
    Geometry geometry;
    char* send = nullptr;
    char* recv = nullptr;
  };

  void set_up(Bytes bytes, bool in_place);
  void warm_up_size(Bytes bytes);
  void fill(std::uint32_t seed, bool in_place);
  std::uint64_t count_wrong(const Lane& lane, bool in_place);
  void start(int iteration);
  void start_lane(const Lane& lane, std::size_t shift, int step);
  void complete(const char* what);
  std::vector<std::unique_ptr<Graph>> capture(int iterations, int aggregated);
  void iterate(int iterations, std::vector<std::unique_ptr<Events>>& events, double& outer_seconds);
  Batch run_batch(int iterations);
  Batch run_graph_batch(std::vector<std::unique_ptr<Graph>>& graphs, int iterations, int launches);
  std::vector<double> iteration_times(std::vector<std::unique_ptr<Events>>& events, int iterations);
  void sample(CaseResult& result);
  double estimate_call();
  double time_call();
  // Seconds that the batch took.
  double sample_once(Sampling& sampling, const BatchShape& shape, Bytes bytes, int number);
  void sample_until_precise(Sampling& out_of_place, Sampling& in_place, const BatchShape& shape, Bytes bytes);
  bool is_time_up(double seconds_here);
  void finish(CaseResult& result);
  void describe_to_watchdog(const Case& the_case);
  // Seconds per call of all threads together.
  double add_batch(CaseResult& result, const Batch& batch);
  void gather_iterations(CaseResult& result, const Batch& batch);
  // After the operation whose input fill() made with check_seed_.
  std::uint64_t count_wrong_of_all(bool in_place);
  // As many operations as -c says, of which so many have been checked before.
  void verify(CaseResult& result, bool in_place, int checks_done);
  ncclRedOp_t make_mulsum(const Rank& rank);
  Pattern pattern(const Rank& rank, std::uint32_t seed) const;

  Parts p_;
  DataType type_ = DataType::float32;
  RedOp op_ = RedOp::sum;
  int root_ = 0;
  std::vector<Lane> lanes_;
  std::size_t span_bytes_ = 0;
  std::size_t places_ = 1;       // offsets that calls rotate through
  std::size_t first_place_ = 0;  // of the first call of a batch
  std::uint32_t check_seed_ = 0;
  bool capturing_ = false;
};

}  // namespace busbw

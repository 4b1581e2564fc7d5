// Measures the cases of one thread's ranks: warm-up, timing, verification.
//
// Every thread of every process runs the same sequence of calls; what one decides, all decide, from numbers that all
// have.
#pragma once

#include <vector>

#include "engine/measure/beside.h"
#include "engine/measure/lanes.h"
#include "engine/measure/precise_way.h"

namespace busbw {

// The team as one of its threads sees it.
class TeamBarrier final : public Barrier {
 public:
  TeamBarrier(Team& team, int thread) : team_(team), thread_(thread) {}
  void wait() override { team_.barrier(); }
  void line_up() override { team_.line_up(thread_); }
  std::vector<double> all_gather(double mine) override { return team_.all_gather(thread_, mine); }

 private:
  Team& team_;
  const int thread_;
};

class Bench {
 public:
  using Parts = Lanes::Parts;
  explicit Bench(Parts parts);

  // Chooses type, operation and root for the calls that follow.
  void select(DataType type, RedOp op, int root) { lanes_.select({type, op, root}); }

  // -w iterations of each size, out of place. When it returns, they have completed on all ranks.
  void warm_up(const std::vector<Bytes>& sizes);

  // Size and count columns of a request on these ranks.
  Case describe(Bytes bytes, bool in_place) const;

  // One placement of one size. Collective over the team; throws on failure of any rank. `previous` is the size that
  // this sweep has measured before this one; 0: none.
  CaseResult measure(const Case& the_case, Bytes previous);

  // --precision: both placements of one size, batch by batch in turn until both are precise, or the time is up. In
  // turn, because caches hold for the calls in place what those out of place have just touched, as they do in
  // nccl-tests.
  struct Row {
    CaseResult out_of_place;
    CaseResult in_place;
  };
  Row measure_row_precisely(const Case& out_of_place, Bytes previous);

 private:
  void warm_up_size(Bytes bytes);
  void fill_inputs(std::uint32_t seed, bool in_place);
  void describe_to_watchdog(const Case& the_case);
  void finish(CaseResult& result);
  BesideResult measure_beside(const Case& the_case);
  // After the operation whose inputs were made with check_seed_.
  std::uint64_t count_wrong_of_all(bool in_place);
  double shortest_of_all(Seconds mine);
  void run_checked_call();
  // As many operations as -c says, of which so many have been checked before.
  void verify(CaseResult& result, bool in_place, int checks_done);

  Parts p_;
  Lanes lanes_;
  SteadyClock clock_;
  TeamBarrier barrier_;
  Timing timing_;
  std::uint32_t check_seed_ = 0;
  Products products_;  // one a rank, made by the first case with --beside
};

}  // namespace busbw

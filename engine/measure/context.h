// Reads the GPUs of all ranks between cases: clocks, throttling, temperature, power, traffic, other processes.
//
// Never while something is timed. A reading costs some hundred microseconds on each process, so that small cases share
// one: it is taken when the cases since the last one took many times as long. All processes come to the same decision
// from figures that all have, without asking each other.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/result.h"
#include "engine/rendezvous/rendezvous.h"

namespace busbw {

class ContextReader {
 public:
  // Reads one GPU, named as RankDescription::bus_id.
  using Read = std::function<GpuSnapshot(const std::string& bus_id)>;

  // `ranks` are those of the whole job, of which `engines` alike take turns on the same GPUs. `every_case` takes a
  // reading after each one, whatever it costs. A process without `read` takes part, and its GPUs tell nothing.
  ContextReader(Rendezvous& rendezvous, const std::vector<RankDescription>& ranks, int engines, bool every_case,
                Read read);

  // Collective over the processes, as is `after`: the reading from which the next case counts. Called when the warm-up
  // is over, so that its traffic is nobody's. Cases that still wait for a reading keep the older one, and their traffic
  // is then not known.
  void begin();

  // The context of the cases that have just ended together, or nothing where they share a later reading.
  std::optional<CaseContext> after(const Plan& plan, const std::vector<const CaseResult*>& results);

 private:
  std::vector<GpuSnapshot> read_all();

  Rendezvous& rendezvous_;
  const std::vector<RankDescription>& ranks_;
  const bool every_case_;
  const Read read_;
  std::vector<int> own_processes_;  // by rank: processes of this job on its GPU
  std::vector<GpuSnapshot> last_;   // by rank; empty before the first reading
  double reading_seconds_ = 0;      // the slowest process's last reading
  double measured_seconds_ = 0;     // of cases since then
  int cases_ = 0;
  bool silent_ = false;           // no process has anything to read
  bool foreign_traffic_ = false;  // since the last reading, calls were made that belong to no case
};

}  // namespace busbw

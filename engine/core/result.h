// What one run measured: who took part, with which library, and the figures of every case.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/data_type.h"
#include "engine/core/gpu_snapshot.h"
#include "engine/core/plan.h"
#include "engine/core/strangers.h"
#include "engine/core/units.h"

namespace busbw {

struct RankDescription {
  int rank = 0;   // in the whole job
  int group = 0;  // colour of the split
  int process = 0;
  int thread = 0;
  long pid = 0;
  std::string host;
  bool gpu = false;
  int device = 0;
  std::string device_name;
  std::string bus_id;  // dddd:bb:dd
  std::string cpus{};  // processors near the GPU that the rank's thread was bound to, as 0-15,64; empty: not bound
};

struct LibraryDescription {
  std::string name;
  std::string path;
  int version_code = 0;
  std::string version;
  std::string cuda_version{};                                // empty: unknown or none
  std::vector<std::pair<std::string, std::string>> lacks{};  // feature, reason
};

// A line of an nccl.conf that sets a variable; in force where neither the environment nor an earlier line sets it.
struct ConfSetting {
  std::string name;
  std::string value;
  std::string file;
  int line = 0;
  bool in_force = false;
};

struct RunDescription {
  std::string run_id;
  std::string started;  // RFC 3339 UTC with milliseconds
  std::string launcher;
  int processes = 1;
  int ranks_in_group = 1;  // ranks of one communicator
  LibraryDescription library;
  std::vector<RankDescription> ranks;
  std::vector<std::pair<std::string, std::string>> environment;  // relevant variables only, sorted
  std::vector<ConfSetting> conf;  // of the relevant variables, in the order in which NCCL reads them
  std::vector<std::pair<std::string, std::string>> system;  // kernel and driver of the hosts, where they are known
  std::vector<std::string> notes;                           // for the record only, such as why there is no context
  bool has_gpus() const { return !ranks.empty() && ranks.front().gpu; }
  std::string memory_note;  // "# Reducing maxBytes ..." lines for the table, or empty
};

enum class Outcome { measured, skipped, failed, timed_out };

// One case: a row of the table is two of them, out of place and in place.
struct Case {
  int index = 0;
  int cycle = 0;
  DataType type = DataType::float32;
  RedOp op = RedOp::sum;
  bool has_op = false;
  std::string op_column;  // as the table shows it: sum, none, or empty
  int root = -1;          // -1: the collective has none
  Bytes requested;
  Bytes bytes;            // size column
  std::size_t count = 0;  // count column
  bool in_place = false;
};

// Statistics of -I, in microseconds.
struct IterationStatistics {
  int skipped = 0;
  double min = 0, max = 0, mean = 0, p50 = 0, p95 = 0, p99 = 0, stdev = 0, cv_percent = 0;
  std::vector<double> times;                             // maximum over all ranks, by iteration
  std::vector<std::vector<double>> per_process_maximum;  // more than one process: by process, by iteration
};

struct Interval {
  double level = 0.95;
  double median = 0, low = 0, high = 0;  // microseconds
  int batches = 0;
  bool reached = false;
};

// What the GPUs told around a case.
struct CaseContext {
  int cases = 1;          // between the two readings, this one included
  double reading_us = 0;  // time that one reading takes, on the slowest process
  std::vector<GpuReading> ranks;
  std::vector<std::string> warnings;  // sentences: clocks held down, a GPU shared
};

// --beside: what so many calls and so many products take from a common start, by repetition, on the slowest rank.
struct BesideResult {
  int calls = 0, products = 0;
  std::vector<double> products_alone_us{}, calls_alone_us{}, products_beside_us{}, calls_beside_us{};
};

struct CaseResult {
  Outcome outcome = Outcome::measured;
  std::string reason{};                           // a sentence for every outcome but measured
  double time_us = 0;                             // elapsed
  double cpu_time_us = 0;                         // launch
  double algbw = 0;                               // GB/s
  double busbw = 0;                               // GB/s
  std::optional<std::uint64_t> wrong{};           // elements; nothing where unchecked
  int iterations = 0;                             // of one batch, as really used
  std::vector<std::vector<double>> batches_us{};  // by thread of all processes: mean time of a call in each batch
  std::optional<IterationStatistics> per_iteration{};
  std::optional<Interval> interval{};
  std::optional<BesideResult> beside{};  // with --beside, out of place
  std::optional<CaseContext> context{};  // nothing where no reading was taken after this case
  std::string algorithm{};               // as the library explains it; empty: it does not
  std::string timestamp{};               // RFC 3339 UTC with milliseconds, when the case was finished
};

struct RunSummary {
  Outcome outcome = Outcome::measured;  // measured: completed
  bool interrupted = false;
  std::string reason;
  int exit_code = 0;
  std::size_t cases = 0;          // written
  std::size_t out_of_bounds = 0;  // checks that failed, as nccl-tests counts them
  double busbw_sum = 0;           // over all rows and placements
  std::size_t busbw_count = 0;
  std::optional<double> required_busbw;  // NCCL_TESTS_MIN_BW
  // -M: bytes, largest over the ranks.
  Bytes memory_initialization, memory_user, memory_collective;
  std::string last_error;  // of the library, or empty
  // Where the time of the main process went, in order.
  std::vector<std::pair<std::string, Seconds>> phases;
  std::size_t cases_with_warnings = 0;
  StrangerCounts strangers{};  // who called at the meeting place and was not of the job
};

}  // namespace busbw

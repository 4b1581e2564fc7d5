// What one run of the engine is to do, as understood from the command line: plain values, no behaviour.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/core/data_type.h"
#include "engine/core/units.h"

namespace busbw {

// -z: when the host waits for an operation to complete.
enum class Blocking : int {
  none = 0,              // after all iterations
  wait_and_barrier = 1,  // after each inner operation, then a barrier
  wait = 2,              // after each inner operation
  outer = 3,             // after each outer iteration, then a barrier whose time is left out
};

// -a: how elapsed times of threads and processes become one.
enum class Average : int { rank0 = 0, mean = 1, min = 2, max = 3 };

// -R: how buffers are made known to the library.
enum class Registration : int { none = 0, local = 1, symmetric = 2 };

struct SizeRange {
  Bytes first{32u << 20};
  Bytes last{32u << 20};
  Bytes step{1u << 20};  // used when factor <= 1
  int factor = 1;
};

// Of a matrix product.
struct ProductShape {
  int rows = 128, columns = 128, inner = 128;
};

// How many calls and products go together at one size.
struct BesideAmount {
  std::size_t bytes = 0;
  int calls = 0, products = 0;
};

// --beside and --beside-amounts.
struct Beside {
  ProductShape shape;
  std::vector<BesideAmount> amounts;  // sizes that are not named get some of their own
};

struct Plan {
  std::string program;                 // all_reduce_perf: basename of argv[0], or <collective>_perf
  std::string collective;              // all_reduce
  std::vector<std::string> arguments;  // as given, for the record

  int threads = 1;  // per process
  int devices = 1;  // per thread
  SizeRange sizes;

  int iterations = 20;
  int aggregated = 1;
  int warmup_iterations = 1;
  int cycles = 1;  // 0: for ever
  bool parallel_init = false;
  int checks = 1;

  std::vector<DataType> types{DataType::float32};
  std::vector<RedOp> ops{RedOp::sum};
  bool all_types = false;  // -d all, -o all: cases that a library lacks are left out with a line, not an error
  bool all_ops = false;
  int root = 0;
  bool all_roots = false;

  Blocking blocking = Blocking::none;
  bool null_stream = false;
  int timeout_seconds = 0;  // 0: off
  int graph_launches = 0;
  bool report_cpu_time = false;
  bool report_timestamps = false;
  std::string json_path;  // -J, empty: none
  Average average = Average::mean;
  Registration registration = Registration::none;
  std::optional<int> cta_policy;
  int device_implementation = 0;
  int device_cta_count = 16;
  bool report_memory = false;
  std::size_t unaligned_elements = 0;
  bool per_iteration = false;
  int per_iteration_skip = 0;

  // Options that nccl-tests does not have.
  std::string library = "auto";     // --library: path, cpu, auto, system, torch, wheel
  std::string record_path;          // --record: JSON Lines; empty: none; "-" is refused
  std::string run_id;               // --run-id; empty: made up from time, host and chance
  std::optional<double> precision;  // --precision 1%: 0.01
  int batches = 1;                  // --batches: samples of each case; not with -I or --precision
  double max_seconds = 10;          // --max-seconds: longest sampling of one case under --precision
  std::optional<Beside> beside;     // --beside: products beside the calls
  bool progress = false;            // --progress: one line on stderr that says what is being measured
  bool show_context = false;        // --context: a line on the GPUs below each row
  bool near_gpu = true;             // --affinity near: threads run on the processors near their GPU
  std::string split;                // --split, else NCCL_TESTS_SPLIT or NCCL_TESTS_SPLIT_MASK
  bool full_environment = false;    // --full-environment: -J stores every variable, as nccl-tests does

  std::vector<std::string> warnings;  // lines for the person, such as an option that was ignored
};

}  // namespace busbw

// One small run with everything in it that is hard to write down.
#pragma once

#include <limits>

#include "engine/core/plan.h"
#include "engine/core/result.h"

namespace busbw {

inline Plan sample_plan() {
  Plan plan;
  plan.program = "all_reduce_perf";
  plan.collective = "all_reduce";
  plan.arguments = {"-b", "8", "-e", "16", "-f", "2", "--library", "caf\xC3\xA9/\"lib\".so"};
  plan.threads = 2;
  plan.sizes = {.first = {8}, .last = {16}, .step = {1048576}, .factor = 2};
  return plan;
}

inline RunDescription sample_run() {
  RunDescription run;
  run.run_id = "20260102T030405Z-example-0a1b2c";
  run.started = "2026-01-02T03:04:05.678Z";
  run.launcher = "none";
  run.ranks_in_group = 2;
  run.library.name = "busbw CPU library 0.1.0";
  run.library.version = "2.28.9";
  run.library.version_code = 22809;
  run.library.lacks = {{"windows", "the library exports no ncclCommWindowRegister"}};
  for (int rank = 0; rank < 2; ++rank)
    run.ranks.push_back({.rank = rank,
                         .group = 0,
                         .process = 0,
                         .thread = rank,
                         .pid = 11,
                         .host = "example",
                         .gpu = false,
                         .device = rank,
                         .device_name = "example CPU",
                         .bus_id = ""});
  run.environment = {{"NCCL_DEBUG", "WARN"}, {"NCCL_NET", "not UTF-8: \xFF"}};
  run.conf = {{.name = "NCCL_PROTO", .value = "LL", .file = "/etc/nccl.conf", .line = 3, .in_force = true}};
  return run;
}

inline Case sample_case() {
  Case at;
  at.has_op = true;
  at.op_column = "sum";
  at.requested = {8};
  at.bytes = {8};
  at.count = 2;
  return at;
}

inline CaseResult sample_result() {
  CaseResult result;
  result.time_us = 0.5;
  result.cpu_time_us = 0.25;
  result.algbw = 0.016;
  result.busbw = 0.016;
  result.wrong = 0;
  result.iterations = 20;
  result.batches_us = {{0.5}, {0.5}};
  result.timestamp = "2026-01-02T03:04:05.700Z";
  return result;
}

}  // namespace busbw

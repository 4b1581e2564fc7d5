// nccl-tests' JSON, version 3: its names and its habits, such as truth values as strings, because readers expect them.
#include "engine/record/nccl_tests_json.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "engine/core/error.h"
#include "engine/record/json.h"
#include "engine/record/summary.h"
#include "engine/record/time.h"

namespace busbw {
namespace {

constexpr int json_version = 3;

OutputFile create_json(const std::string& path) {
  constexpr int most_files = 100'000;
  for (int number = -1; number < most_files; ++number) {
    const std::string name = number < 0 ? path : path + '.' + std::to_string(number);
    const int descriptor = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (descriptor >= 0) return OutputFile(descriptor, name);
    if (errno != EEXIST)
      throw Error(ExitCode::bad_arguments, "the JSON file '" + name + "' (-J) cannot be written: " +
                                               std::strerror(errno) + "; name a file in a folder you can write to");
  }
  throw Error(ExitCode::bad_arguments, "there are already too many files named '" + path + ".N' (-J); name a new file");
}

const char* yes_or_no(bool truth) { return truth ? "true" : "false"; }

void write_device(JsonText& json, const RankDescription& rank) {
  json.begin_object().member("rank", rank.rank).member("group", rank.group).member("pid", rank.pid);
  json.member("hostname", rank.host).member("device", rank.device).member("device_hex", rank.bus_id);
  json.member("device_info", rank.device_name).end_object();
}

// Readers take entry i for process i, so a process has one entry here: its first rank.
void write_devices(JsonText& json, const std::vector<RankDescription>& ranks) {
  json.key("devices").begin_array();
  int next_process = 0;
  for (const RankDescription& rank : ranks) {
    if (rank.process < next_process) continue;
    write_device(json, rank);
    next_process = rank.process + 1;
  }
  json.end_array().key("ranks").begin_array();
  for (const RankDescription& rank : ranks) write_device(json, rank);
  json.end_array();
}

void write_config(JsonText& json, const Plan& plan, const RunDescription& run) {
  json.key("config").begin_object().member("nthreads", plan.threads).member("ngpus", plan.devices);
  json.member("minimum_bytes", plan.sizes.first.count).member("maximum_bytes", plan.sizes.last.count);
  if (plan.sizes.factor > 1)
    json.member("step_factor", plan.sizes.factor);
  else
    json.member("step_bytes", plan.sizes.step.count);
  json.member("warmup_iters", plan.warmup_iterations).member("iterations", plan.iterations);
  json.member("aggregated_iterations", plan.aggregated).member("validation", plan.checks);
  json.member("graph", plan.graph_launches);
  json.member("blocking_collectives", yes_or_no(plan.blocking != Blocking::none));
  json.member("per_iter_timing", yes_or_no(plan.per_iteration)).member("per_iter_skip", plan.per_iteration_skip);
  json.member("parallel_init", yes_or_no(plan.parallel_init));
  write_devices(json, run.ranks);
  json.end_object();
}

void write_figures(JsonText& json, const char* key, const CaseResult& result, bool cpu_time) {
  json.key(key).begin_object();
  const char* time_key = cpu_time ? "cpu_time" : "time";
  if (result.outcome == Outcome::measured) {
    json.member(time_key, cpu_time ? result.cpu_time_us : result.time_us);
    json.member("alg_bw", result.algbw).member("bus_bw", result.busbw).member("nwrong", result.wrong);
  } else {
    for (const char* absent : {time_key, "alg_bw", "bus_bw", "nwrong"}) json.null_member(absent);
  }
  json.end_object();
}

void write_statistics(JsonText& json, const char* key, const IterationStatistics& s) {
  json.key(key).begin_object().member("skipped_iterations", s.skipped);
  json.member("min_us", s.min).member("max_us", s.max).member("avg_us", s.mean);
  json.member("p50_us", s.p50).member("p95_us", s.p95).member("p99_us", s.p99);
  json.member("stdev_us", s.stdev).member("cv_pct", s.cv_percent).member("times_us", s.times);
  if (!s.per_process_maximum.empty()) json.member("per_process_max_times_us", s.per_process_maximum);
  json.end_object();
}

void write_placement(JsonText& json, const std::string& key, const CaseResult& result, bool cpu_time) {
  write_figures(json, key.c_str(), result, cpu_time);
  if (result.per_iteration) write_statistics(json, (key + "_per_iter").c_str(), *result.per_iteration);
}

std::string text_of_errors(const RunSummary& summary) {
  return summary.last_error.empty() ? summary.reason : summary.last_error;
}

// The members of an object without its braces, to be put behind others.
std::string members_of(const JsonText& object) { return object.text().substr(1, object.text().size() - 2); }

}  // namespace

NcclTestsJson::NcclTestsJson(const std::string& path) : file_(create_json(path)) {
  try {
    file_.extend("{", "}");
  } catch (const Error&) {
    const std::string reason = std::strerror(errno);
    ::unlink(file_.path().c_str());  // an empty file says nothing, and its name would be taken
    throw Error(ExitCode::bad_arguments, "the JSON file '" + file_.path() + "' (-J) can be created but not written: " +
                                             reason + "; name a file where there is room");
  }
}

void NcclTestsJson::begin(const Plan& plan, const RunDescription& run, const Variables& environment) {
  report_cpu_time_ = plan.report_cpu_time;
  std::vector<std::string> arguments{plan.program};
  arguments.insert(arguments.end(), plan.arguments.begin(), plan.arguments.end());
  std::vector<std::string> variables;
  for (const auto& [name, value] : environment) variables.push_back(name + '=' + value);
  JsonText json;
  json.begin_object().member("version", json_version).member("start_time", local_time(run.started));
  json.member("args", arguments).member("env", variables).member("nccl_version", run.library.version_code);
  write_config(json, plan, run);
  json.end_object();
  file_.extend(members_of(json) + ",\"results\":[", "]}");
}

void NcclTestsJson::row(const Case& at, const CaseResult& out_of_place, const CaseResult& in_place) {
  if (out_of_place.outcome != Outcome::measured && in_place.outcome != Outcome::measured) return;
  JsonText json;
  json.begin_object().member("size", at.bytes.count).member("count", at.count).member("type", name(at.type));
  json.member("redop", at.op_column).member("root", format("%6d", at.root));
  write_placement(json, "out_of_place", out_of_place, report_cpu_time_);
  write_placement(json, "in_place", in_place, report_cpu_time_);
  json.member("actual_iterations", out_of_place.iterations).member("experiment_name", "").end_object();
  file_.extend((has_rows_ ? "," : "") + json.text(), "]}");
  has_rows_ = true;
}

void NcclTestsJson::end(const RunSummary& summary) {
  JsonText json;
  json.begin_object().key("out_of_bounds").begin_object().member("count", summary.out_of_bounds);
  json.member("okay", yes_or_no(summary.out_of_bounds == 0)).end_object();
  const std::optional<bool> enough = is_fast_enough(summary);
  json.key("average_bus_bandwidth").begin_object().member("bandwidth", average_busbw(summary));
  json.member("okay", enough ? yes_or_no(*enough) : "unchecked").end_object();
  json.member("errors", std::vector<std::string>{text_of_errors(summary)});
  json.member("end_time", local_time()).end_object();
  file_.extend("]," + members_of(json), "}\n");
}

}  // namespace busbw

// The three kinds of line of a record, schema version 1.
#include "engine/record/record.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "engine/core/error.h"
#include "engine/core/version.h"
#include "engine/record/file_hash.h"
#include "engine/record/json.h"
#include "engine/record/summary.h"
#include "engine/record/time.h"

namespace busbw {
namespace {

// A few hundredths of a second: a larger library would delay the first case, or disturb it from another thread.
constexpr std::uintmax_t hashed_at_start = 8u << 20;

OutputFile create_record(const std::string& path) {
  make_folders_above(path, "the record");
  const int descriptor = open_to_write(path, O_CREAT | O_APPEND);
  if (descriptor < 0) {
    const std::string why = errno == ETIMEDOUT ? "nobody reads from this pipe" : std::strerror(errno);
    throw Error(ExitCode::bad_arguments, "the record '" + path + "' cannot be written: " + why +
                                             "; name a file in a folder you can write to (--record)");
  }
  OutputFile file(descriptor, path);
  struct stat status{};
  if (::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0)
    throw Error(ExitCode::bad_arguments,
                "the record '" + path + "' already holds something and is not overwritten; name a new file (--record)");
  return file;
}

const char* word(Outcome outcome) {
  switch (outcome) {
    case Outcome::measured:
      return "measured";
    case Outcome::skipped:
      return "skipped";
    case Outcome::failed:
      return "failed";
    case Outcome::timed_out:
      return "timed_out";
  }
  return "failed";
}

const char* word(Average average) {
  switch (average) {
    case Average::rank0:
      return "rank0";
    case Average::mean:
      return "mean";
    case Average::min:
      return "min";
    case Average::max:
      return "max";
  }
  return "mean";
}

const char* end_word(const RunSummary& summary) {
  if (summary.interrupted) return "interrupted";
  switch (summary.outcome) {
    case Outcome::measured:
    case Outcome::skipped:
      return "completed";
    case Outcome::failed:
      return "failed";
    case Outcome::timed_out:
      return "timed_out";
  }
  return "failed";
}

JsonText& member_or_null(JsonText& json, std::string_view key, const std::string& text) {
  return text.empty() ? json.null_member(key) : json.member(key, text);
}

void begin_line(JsonText& json, const char* kind, const std::string& run_id) {
  json.begin_object().member("schema", 1).member("kind", kind).member("run", run_id);
}

template <typename Values>
std::vector<std::string> names_of(const Values& values) {
  std::vector<std::string> names;
  for (const auto value : values) names.emplace_back(name(value));
  return names;
}

void write_sizes(JsonText& json, const SizeRange& sizes) {
  json.member("minbytes", sizes.first.count).member("maxbytes", sizes.last.count);
  json.member("stepbytes", sizes.step.count).member("stepfactor", sizes.factor);
}

void write_measuring(JsonText& json, const Plan& plan) {
  json.member("datatype", names_of(plan.types)).member("op", names_of(plan.ops));
  if (plan.all_roots)
    json.member("root", "all");
  else
    json.member("root", plan.root);
  json.member("iters", plan.iterations).member("agg_iters", plan.aggregated);
  json.member("warmup_iters", plan.warmup_iterations).member("run_cycles", plan.cycles);
  json.member("check", plan.checks).member("blocking", static_cast<int>(plan.blocking));
  json.member("stream_null", plan.null_stream).member("timeout", plan.timeout_seconds);
  json.member("cudagraph", plan.graph_launches).member("average", static_cast<int>(plan.average));
  json.member("local_register", static_cast<int>(plan.registration)).member("cta_policy", plan.cta_policy);
  json.member("unalign", plan.unaligned_elements).member("parallel_init", plan.parallel_init);
}

// Options that a rerun would have to repeat; where output goes is not among them.
void write_options(JsonText& json, const Plan& plan) {
  json.key("options").begin_object();
  json.member("nthreads", plan.threads).member("ngpus", plan.devices);
  write_sizes(json, plan.sizes);
  write_measuring(json, plan);
  json.member("report_cputime", plan.report_cpu_time).member("per_iter_timing", plan.per_iteration);
  json.member("per_iter_skip", plan.per_iteration_skip);
  json.member("affinity", plan.near_gpu ? "near" : "none");
  json.member("library", plan.library).member("precision", plan.precision).member("max_seconds", plan.max_seconds);
  member_or_null(json, "split", plan.split);
  json.end_object();
}

void write_library(JsonText& json, const LibraryDescription& library, const std::string& sha256) {
  json.key("library").begin_object().member("name", library.name);
  member_or_null(json, "path", library.path);
  member_or_null(json, "version", library.version).member("version_code", library.version_code);
  member_or_null(json, "sha256", sha256);
  member_or_null(json, "cuda_version", library.cuda_version);
  json.key("lacks").begin_array();
  for (const auto& [feature, reason] : library.lacks)
    json.begin_object().member("feature", feature).member("reason", reason).end_object();
  json.end_array().end_object();
}

void write_rank(JsonText& json, const RankDescription& rank) {
  json.begin_object().member("rank", rank.rank).member("group", rank.group).member("process", rank.process);
  json.member("thread", rank.thread).member("pid", rank.pid).member("host", rank.host);
  json.key("device").begin_object().member("kind", rank.gpu ? "gpu" : "cpu").member("index", rank.device);
  member_or_null(json.member("name", rank.device_name), "bus_id", rank.bus_id).end_object();
  if (!rank.cpus.empty()) json.member("cpus", rank.cpus);
  json.end_object();
}

void write_identity(JsonText& json, const std::string& collective, const Case& at) {
  json.member("case", at.index).member("cycle", at.cycle).member("collective", collective);
  json.member("type", name(at.type));
  if (at.has_op)
    json.member("op", name(at.op));
  else
    json.null_member("op");
  if (at.root >= 0)
    json.member("root", at.root);
  else
    json.null_member("root");
}

void write_figures(JsonText& json, const CaseResult& result) {
  const bool measured = result.outcome == Outcome::measured;
  const auto figure = [&](const char* key, double value) {
    measured ? json.member(key, value) : json.null_member(key);
  };
  figure("time_us", result.time_us);
  figure("cpu_time_us", result.cpu_time_us);
  figure("algbw_GBps", result.algbw);
  figure("busbw_GBps", result.busbw);
}

// The maximum over each process's ranks; one process leaves only the maximum over all.
void write_iterations(JsonText& json, const IterationStatistics& statistics) {
  if (statistics.per_process_maximum.empty())
    json.member("iterations_us", std::vector<std::vector<double>>{statistics.times});
  else
    json.member("iterations_us", statistics.per_process_maximum);
}

void write_beside(JsonText& json, const BesideResult& beside, const ProductShape& shape) {
  json.key("beside").begin_object().member("product", format("%dx%dx%d", shape.rows, shape.columns, shape.inner));
  json.member("calls", beside.calls).member("products", beside.products);
  json.member("products_alone_us", beside.products_alone_us).member("calls_alone_us", beside.calls_alone_us);
  json.member("products_beside_us", beside.products_beside_us).member("calls_beside_us", beside.calls_beside_us);
  json.end_object();
}

void write_interval(JsonText& json, const std::optional<Interval>& interval) {
  if (!interval || interval->batches < 1) {
    json.null_member("interval");
    return;
  }
  json.key("interval").begin_object().member("of", "median").member("level", interval->level);
  json.member("median_us", interval->median).member("low_us", interval->low).member("high_us", interval->high);
  json.member("batches", interval->batches).member("reached", interval->reached).end_object();
}

void write_snapshot(JsonText& json, const char* key, const GpuSnapshot& snapshot) {
  json.key(key).begin_object();
  visit_fields(snapshot, [&](const char* name, const auto& field) {
    if (field && name != std::string_view("throttle_reasons")) json.member(name, *field);
  });
  if (snapshot.throttle_reasons) json.member("throttle_reasons", throttle_names(*snapshot.throttle_reasons));
  json.end_object();
}

void write_context(JsonText& json, const CaseContext& context) {
  json.key("context").begin_object().member("cases", context.cases).member("reading_us", context.reading_us);
  json.member("warnings", context.warnings).key("ranks").begin_array();
  for (const GpuReading& reading : context.ranks) {
    json.begin_object().member("rank", reading.rank);
    write_snapshot(json, "before", reading.before);
    write_snapshot(json, "after", reading.after);
    json.end_object();
  }
  json.end_array().end_object();
}

}  // namespace

RecordWriter::RecordWriter(const std::string& path, std::string run_id)
    : file_(create_record(path)), run_id_(std::move(run_id)) {}

void RecordWriter::write_run(const Plan& plan, const RunDescription& run) {
  JsonText json;
  begin_line(json, "run", run_id_);
  member_or_null(json, "started", run.started);
  json.key("tool").begin_object().member("name", "busbw").member("version", version).end_object();
  json.member("program", plan.program).member("arguments", plan.arguments);
  write_options(json, plan);
  write_library(json, run.library, hash_now_or_later(run.library.path));
  member_or_null(json, "launcher", run.launcher).member("processes", run.processes);
  json.member("threads_per_process", plan.threads).member("devices_per_thread", plan.devices);
  json.key("ranks").begin_array();
  for (const RankDescription& rank : run.ranks) write_rank(json, rank);
  json.end_array().key("environment").begin_object();
  for (const auto& [name, value] : run.environment) json.member(name, value);
  json.end_object();
  if (!run.conf.empty()) {
    json.key("conf").begin_array();
    for (const ConfSetting& each : run.conf) {
      json.begin_object().member("name", each.name).member("value", each.value).member("file", each.file);
      json.member("line", each.line).member("in_force", each.in_force).end_object();
    }
    json.end_array();
  }
  if (!run.system.empty()) {
    json.key("system").begin_object();
    for (const auto& [name, value] : run.system) json.member(name, value);
    json.end_object();
  }
  std::vector<std::string> notes = plan.warnings;
  notes.insert(notes.end(), run.notes.begin(), run.notes.end());
  json.member("notes", notes);
  write_line(json.end_object());
}

void RecordWriter::write_case(const std::string& collective, int ranks, const Plan& plan, const Case& at,
                              const CaseResult& result) {
  JsonText json;
  begin_line(json, "case", run_id_);
  write_identity(json, collective, at);
  json.member("ranks", ranks).member("bytes", at.bytes.count).member("requested_bytes", at.requested.count);
  json.member("count", at.count).member("placement", at.in_place ? "in_place" : "out_of_place");
  json.member("outcome", word(result.outcome));
  member_or_null(json, "reason", result.outcome == Outcome::measured ? std::string() : result.reason);
  write_figures(json, result);
  json.member("average", word(plan.average)).member("wrong", result.wrong).member("checks", plan.checks);
  json.member("iterations", result.iterations).member("aggregated", plan.aggregated);
  json.member("graph_launches", plan.graph_launches).member("batches_us", result.batches_us);
  if (result.per_iteration) write_iterations(json, *result.per_iteration);
  write_interval(json, result.interval);
  if (result.beside) write_beside(json, *result.beside, plan.beside->shape);
  if (!result.algorithm.empty()) json.member("algorithm", result.algorithm);
  if (result.context) write_context(json, *result.context);
  write_line(member_or_null(json, "timestamp", result.timestamp).end_object());
}

void RecordWriter::write_end(const RunSummary& summary) {
  JsonText json;
  begin_line(json, "end", run_id_);
  json.member("finished", rfc3339()).member("outcome", end_word(summary));
  member_or_null(json, "reason", summary.reason).member("exit_code", summary.exit_code);
  json.member("cases", summary.cases).member("out_of_bounds", summary.out_of_bounds);
  json.member("average_busbw_GBps", average_busbw(summary));
  if (!summary.phases.empty()) {
    json.key("phases_s").begin_object();
    for (const auto& [name, spent] : summary.phases) json.member(name, spent.count());
    json.end_object();
  }
  if (total(summary.strangers) > 0) {
    json.key("strangers").begin_object();
    for (std::size_t kind = 0; kind < summary.strangers.size(); ++kind)
      if (summary.strangers[kind] > 0) json.member(stranger_words[kind].first, summary.strangers[kind]);
    json.end_object();
  }
  if (large_hash_.valid()) member_or_null(json, "library_sha256", large_hash_.get());
  write_line(json.end_object());
}

std::string RecordWriter::hash_now_or_later(const std::string& path) {
  const std::optional<std::uintmax_t> size = size_of_file(path);
  if (!size) return {};
  if (*size <= hashed_at_start) return sha256_of_file(path);
  large_hash_ = std::async(std::launch::async, sha256_of_file, path).share();
  return {};
}

void RecordWriter::settle() const {
  if (large_hash_.valid()) large_hash_.wait();
}

void RecordWriter::write_line(const JsonText& json) { file_.append(json.text() + '\n'); }

}  // namespace busbw
